"""Lines by subject: what reaches Python's loggers."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.log.repetitions import Repetitions
from mockbroker.log.subject_log import FIELD_MAX, MESSAGE_MAX, SubjectLog

_LOG = SubjectLog("test_subject", Repetitions(now_s=lambda: 0.0))


def _fields(record: logging.LogRecord) -> object:
    return getattr(record, "fields", None)


def test_a_line_has_logger_level_message_fields_and_its_caller(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mockbroker.test_subject")
    _LOG.debug("d %(n)d", n=1)
    _LOG.info("i %(n)d", about="one", n=2)
    _LOG.warning("w %(client)r", client="a")
    _LOG.error("e %(n)d", ValueError("odd"), n=3)

    assert [(record.levelname, record.getMessage(), _fields(record)) for record in caplog.records] == [
        ("DEBUG", "d 1", {"n": 1}),
        ("INFO", "i 2", {"n": 2}),
        ("WARNING", "w 'a'", {"client": "a"}),
        ("ERROR", "e 3", {"n": 3}),
    ]
    assert {record.name for record in caplog.records} == {"mockbroker.test_subject"}
    assert {Path(record.pathname) for record in caplog.records} == {Path(__file__)}
    assert "ValueError: odd" in caplog.text


def test_nothing_is_made_of_a_line_below_the_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "mockbroker.test_subject")
    _LOG.warning("%(missing)d is not looked up", n=1)

    assert caplog.records == []
    assert not _LOG.has_debug


@pytest.mark.parametrize(
    "text", ["a\n2026-01-01T00:00:00.000Z ERROR mockbroker.server: forged", "\x1b[2J\x1b]0;title\x07", "\u202egpj.exe"]
)
def test_a_text_of_a_client_can_neither_break_the_line_nor_act_on_a_terminal(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mockbroker.test_subject")
    log = SubjectLog("test_subject", Repetitions())
    log.info("%(client_id)r and %(client_id)s", client_id=text)

    assert caplog.records[0].getMessage().isprintable()
    assert _fields(caplog.records[0]) == {"client_id": text}


def test_a_client_cannot_end_the_quotes_around_its_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mockbroker.test_subject")
    SubjectLog("test_subject", Repetitions()).info("client %(client_id)r: ok", client_id="a': forged '\"")

    assert caplog.records[0].getMessage() == "client 'a\\': forged \\'\"': ok"


@given(text=st.text(max_size=3 * MESSAGE_MAX))
def test_lines_are_printable_and_bounded_whatever_a_client_sends(text: str) -> None:
    records: list[logging.LogRecord] = []
    log = SubjectLog("test_bounds", Repetitions())
    log.logger.setLevel(logging.INFO)

    def keep(record: logging.LogRecord) -> bool:
        records.append(record)
        return False

    log.logger.addFilter(keep)
    try:
        log.info("%(a)s %(b)r %(a)s %(a)s %(a)s", a=text, b=text)
    finally:
        log.logger.removeFilter(keep)

    message = records[0].getMessage()
    assert message.isprintable()
    assert len(message) <= 10 * (MESSAGE_MAX + 40)
    assert all(len(value) < FIELD_MAX + 40 for value in vars(records[0])["fields"].values())


def test_a_long_text_is_cut_and_its_length_is_given(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mockbroker.test_subject")
    SubjectLog("test_subject", Repetitions()).info("%(reason)s", reason="x" * 600)

    assert caplog.records[0].getMessage() == "x" * 500 + "... (100 more characters)"


def test_the_number_of_lines_that_are_left_out_comes_with_the_newest_of_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mockbroker.test_subject")
    repetitions = Repetitions(lines_max=1, now_s=lambda: 0.0)
    log = SubjectLog("test_subject", repetitions)
    for port in (1, 2, 3):
        log.warning("%(client)s is gone", about="h", client=f"h:{port}")
    log.warning("%(client)s is gone", about="g", client="g:1")
    repetitions.flush()

    assert [record.getMessage() for record in caplog.records] == [
        "h:1 is gone",
        "g:1 is gone",
        "2 more like this in 0.0 s: h:3 is gone",
    ]
    assert _fields(caplog.records[-1]) == {"client": "h:3", "omitted": 2, "seconds": 0.0}
    assert caplog.records[-1].levelno == logging.WARNING


_EMBEDDED = """
import socket
from mockbroker import Cluster
with Cluster(topics={"orders": 1}, nodes=2, properties={"default.replication.factor": 2}) as cluster:
    host, port = cluster.bootstrap_servers.split(",")[0].split(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
        client.recv(1)
    cluster.stop_node(1)
    assert cluster.describe_topic("orders").partitions[0].leader == 0
"""


def test_a_program_with_a_cluster_prints_nothing_unless_it_configures_the_log() -> None:
    quiet = subprocess.run([sys.executable, "-c", _EMBEDDED], capture_output=True, text=True, timeout=60, check=True)
    configured = "import logging; logging.basicConfig(level='INFO', format='%(name)s %(message)s')\n"
    command = [sys.executable, "-c", configured + _EMBEDDED]
    loud = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert (quiet.stdout, quiet.stderr) == ("", "")
    assert loud.stdout == ""
    assert "mockbroker.topics topic orders was made: partitions 1, replicas 2\n" in loud.stderr
    assert "mockbroker.connections node 0 closes 127.0.0.1:" in loud.stderr
    assert "mockbroker.nodes node 1 has ended\n" in loud.stderr
