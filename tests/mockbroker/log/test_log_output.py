"""The two formats of the commands' log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mockbroker.log.log_output import FORMATS, JsonFormatter, TextFormatter, start_log
from mockbroker.log.repetitions import Repetitions
from mockbroker.log.subject_log import ROOT_NAME, SubjectLog

_FORGED = "2026-01-01T00:00:00.000Z ERROR mockbroker.server: forged"


def _record(message: str, *, error: BaseException | None = None, **fields: object) -> logging.LogRecord:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("mockbroker.topics", logging.INFO, __file__, 1, message, (), exc_info)
    record.created = 1_795_494_031.4669
    if fields:
        record.fields = fields
    return record


def _raise(message: str) -> BaseException:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


def test_text_has_the_time_in_utc_with_milliseconds_level_logger_and_message() -> None:
    line = TextFormatter().format(_record("topic a was deleted", topic="a"))

    assert line == "2026-11-24T04:20:31.466Z INFO mockbroker.topics: topic a was deleted"


def test_json_has_the_fields_beside_those_of_every_line_which_they_do_not_replace() -> None:
    line = JsonFormatter().format(_record("text", topic="a", partitions=[0, 2], level="forged"))

    assert json.loads(line) == {
        "timestamp": "2026-11-24T04:20:31.466Z",
        "level": "info",
        "logger": "mockbroker.topics",
        "message": "text",
        "topic": "a",
        "partitions": [0, 2],
    }


@pytest.mark.parametrize("log_format", FORMATS)
def test_the_message_of_an_exception_cannot_forge_a_line(log_format: str) -> None:
    formatter = JsonFormatter() if log_format == "json" else TextFormatter()
    first, *others = formatter.format(_record("failed", error=_raise(f"x\n{_FORGED}\x1b[2J"))).split("\n")

    assert first.isprintable()
    assert all(line.startswith("    ") and line.isprintable() for line in others)
    assert "ValueError: x" in "\n".join([first, *others])
    assert bool(others) is (log_format == "text")


@pytest.mark.parametrize("log_format", FORMATS)
def test_the_line_of_another_library_is_one_line(log_format: str) -> None:
    formatter = JsonFormatter() if log_format == "json" else TextFormatter()
    line = formatter.format(_record(f"a\n{_FORGED}\x1b[2J\ud800"))

    assert line.isprintable()
    if log_format == "json":
        assert json.loads(line)["message"] == f"a\n{_FORGED}\x1b[2J\ud800"


@contextmanager
def _new_process() -> Iterator[None]:
    """Loggers as those of a process that has just started; pytest adds its own to each test."""
    root, own = logging.getLogger(), logging.getLogger(ROOT_NAME)
    before = root.handlers[:], root.level, own.level
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:], level, own_level = before
        root.setLevel(level)
        own.setLevel(own_level)


def test_the_level_is_that_of_mockbroker_and_other_libraries_only_warn(capsys: pytest.CaptureFixture[str]) -> None:
    with _new_process():
        start_log(level="debug", log_format="text")
        SubjectLog("test_output", Repetitions()).debug("%(n)d", n=1)
        logging.getLogger("other").info("hidden")
        logging.getLogger("other").warning("shown")

    assert [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()] == [
        "DEBUG mockbroker.test_output: 1",
        "WARNING other: shown",
    ]


def test_at_the_level_error_no_library_warns(capsys: pytest.CaptureFixture[str]) -> None:
    with _new_process():
        start_log(level="error", log_format="json")
        SubjectLog("test_output", Repetitions()).warning("%(n)d", n=1)
        logging.getLogger("other").warning("hidden")
        logging.getLogger("other").error("shown")

    assert [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()] == ["shown"]


def test_the_log_of_a_process_that_has_one_is_left_alone() -> None:
    root, own = logging.getLogger(), logging.getLogger(ROOT_NAME)
    before = root.handlers[:], root.level, own.level
    start_log(level="debug", log_format="json")

    assert root.handlers
    assert (root.handlers, root.level, own.level) == before
