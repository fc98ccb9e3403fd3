"""Driver processes: calls, everything that a driver can do wrong, and that every process is ended."""

from __future__ import annotations

import os
import re
import select
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mockbroker.certify.driver import messages as m
from mockbroker.certify.driver import process as process_module
from mockbroker.certify.driver.failure import ClientError, DriverFailure
from mockbroker.certify.driver.process import DriverProcess
from tests.support.certify.scripted_driver import command

SEND = m.SendParams(client="p", topic="orders", records=(m.SendRecord(value="a"),), timeout_ms=1000)


@pytest.fixture
def started() -> Iterator[list[DriverProcess]]:
    """Processes that are ended after the test."""
    processes: list[DriverProcess] = []
    yield processes
    for process in processes:
        process.kill()


def _start(started: list[DriverProcess], behaviour: str) -> DriverProcess:
    process = DriverProcess(command(behaviour))
    started.append(process)
    return process


def _send(process: DriverProcess, wait_s: float = 20) -> m.SendResult:
    return process.call("send", SEND, m.SendResult, wait_s=wait_s)


def _is_alive(process_id: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _read_child(process: DriverProcess) -> int:
    """The process id that the driver has written to its log, which may come after its answer."""
    deadline = time.monotonic() + 30
    while not (found := re.findall(r"child (\d+)\n", process.log.text())):
        assert time.monotonic() < deadline, process.log.text()
        threading.Event().wait(0.01)
    return int(found[0])


def _has_ended(process_id: int) -> bool:
    """Whether a process ends within 30 s: a killed one may still run for a moment."""
    try:
        opened = os.pidfd_open(process_id)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([opened], [], [], 30)[0])
    finally:
        os.close(opened)


def test_calls_are_answered_in_typed_results(started: list[DriverProcess]) -> None:
    process = _start(started, "good")

    assert process.hello().capabilities == ("producer", "consumer.assign")
    assert _send(process).deliveries == (m.Delivery(topic="orders", partition=0, offset=0),)
    assert process.close() is None
    assert not process.is_usable


def test_an_error_of_the_client_does_not_end_the_driver(started: list[DriverProcess]) -> None:
    process = _start(started, "fails")
    process.hello()

    with pytest.raises(ClientError, match="MESSAGE_TOO_LARGE") as raised:
        _send(process)

    assert (raised.value.name, raised.value.fatal, raised.value.abortable) == ("MESSAGE_TOO_LARGE", False, None)
    assert process.is_usable


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("rubbish", "wrong answer to send: .*'DEBUG opening the client'"),
        ("wrong-id", r"an answer to request 77; expected one to 2 \(send\)"),
        ("both", "wrong answer to send: .*either a result or an error"),
        ("unknown-error", "wrong answer to send: error name 'KAPUTT' is neither"),
        ("wrong-result", "send: wrong result: a delivery has topic, partition and offset, or an error"),
        ("crash", "send: the driver ended with exit code 3"),
        ("killed", "send: the driver ended by signal 9"),
        ("long-line", "a line is longer than 1048576 bytes: 'xxx"),
        ("closed-stdout", "send: the driver has closed its stdout"),
    ],
)
def test_what_breaks_the_protocol_ends_the_driver_with_a_clear_message(
    behaviour: str, message: str, started: list[DriverProcess]
) -> None:
    process = _start(started, behaviour)
    process.hello()

    with pytest.raises(DriverFailure, match=message):
        _send(process)

    assert not process.is_usable
    assert _has_ended(process.process_id)
    with pytest.raises(DriverFailure, match=message):
        _send(process)


def test_a_failure_shows_the_last_output(started: list[DriverProcess]) -> None:
    process = _start(started, "crash")
    process.hello()

    with pytest.raises(DriverFailure) as raised:
        _send(process)

    assert raised.value.describe().endswith("last output of the driver:\n    Traceback: the driver broke down")


def test_a_missing_answer_ends_the_driver_after_its_time(started: list[DriverProcess]) -> None:
    process = _start(started, "silent")
    process.hello()

    with pytest.raises(DriverFailure, match=r"no answer to send within 0\.2 s"):
        _send(process, wait_s=0.2)

    assert _has_ended(process.process_id)


def test_a_flood_is_bounded_and_ends_the_driver(started: list[DriverProcess]) -> None:
    process = _start(started, "flood")
    process.hello()

    with pytest.raises(DriverFailure, match=r"an answer to request 0|more than 16 lines came without a request"):
        _send(process)

    assert _has_ended(process.process_id)


def test_a_second_answer_is_found_by_the_next_call(started: list[DriverProcess]) -> None:
    process = _start(started, "twice")
    process.hello()
    params = m.OpenParams(client="p", kind="producer", settings={})
    process.call("open", params, m.Nothing, wait_s=20)

    with pytest.raises(DriverFailure, match=r"a line came without a request|an answer to request 2"):
        _send(process)


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("future", "version 2 of the driver protocol; this command speaks version 1"),
        ("unknown-capability", "hello: unknown capability 'telepathy'"),
        ("unknown-setting", "hello: unknown setting 'colour'"),
        ("exits", "hello: the driver ended with exit code 1"),
    ],
)
def test_hello_is_checked(behaviour: str, message: str, started: list[DriverProcess]) -> None:
    process = _start(started, behaviour)

    with pytest.raises(DriverFailure, match=message):
        process.hello()

    assert _has_ended(process.process_id)


@pytest.mark.parametrize(
    ("line", "message"),
    [("/no/such/driver", "cannot be started: .*No such file"), ("", "empty"), ("'", "No closing quotation")],
)
def test_a_command_that_cannot_be_started_is_named(line: str, message: str) -> None:
    with pytest.raises(DriverFailure, match=message):
        DriverProcess(line)


@pytest.mark.parametrize("behaviour", ["child", "detached"])
def test_children_that_are_left_behind_are_ended(behaviour: str, started: list[DriverProcess]) -> None:
    process = _start(started, behaviour)
    process.hello()
    child = _read_child(process)
    assert _is_alive(child)

    assert process.close() == "the driver ended and left processes behind, which were killed"
    assert _has_ended(child)


def test_children_end_with_a_killed_driver(started: list[DriverProcess]) -> None:
    process = _start(started, "detached")
    process.hello()
    child = _read_child(process)

    process.kill()

    assert _has_ended(child)
    assert _has_ended(process.process_id)


def test_a_driver_that_goes_on_after_the_end_of_stdin_is_killed(
    started: list[DriverProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "END_S", 0.2)
    process = _start(started, "deaf")
    process.hello()

    assert process.close() == "the driver did not end within 0.2 s after the end of its stdin"
    assert _has_ended(process.process_id)


def test_the_log_is_bounded(started: list[DriverProcess]) -> None:
    process = _start(started, "noisy")
    process.hello()
    process.close()

    text = process.log.text()

    assert len(text) < 300_000
    assert re.search(r"\n\[\d+ bytes were dropped\]\n", text)


def test_a_request_that_is_too_long_is_refused_before_it_is_sent(started: list[DriverProcess]) -> None:
    process = _start(started, "good")
    process.hello()
    record = m.SendRecord(value="x" * (1 << 20))
    params = m.SendParams(client="p", topic="orders", records=(record,), timeout_ms=1000)

    with pytest.raises(ValueError, match="the protocol allows 1048576"):
        process.call("send", params, m.SendResult, wait_s=1)

    assert process.is_usable


def test_the_environment_of_this_process_is_unchanged(started: list[DriverProcess]) -> None:
    before = dict(os.environ)
    _start(started, "good").hello()

    assert dict(os.environ) == before
