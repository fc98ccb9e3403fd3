"""Captures of one client script on Apache Kafka and on the mock have the same rows, except ids and times.

The capture of Kafka is recorded (`kafka_captures.py`); the mock is captured again, by tcpdump or dumpcap and by
`--capture`.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from kwire.capture.reader import read_rows
from mockbroker import Cluster
from tests.support.captures import comparable_rows, packet_recorder
from tests.support.captures.kafka_captures import BROKER, SCRIPTS, play_scripts
from tools.oracle.conversations.broker_properties import properties
from tools.oracle.conversations.normalization import difference
from tools.oracle.conversations.socket_brokers import ClockedBroker

CAPTURE_METHODS = ("capture", "packets")


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both captures of one run on the mock; without "packets" if this user must not capture."""
    folder = tmp_path_factory.mktemp("mock")
    paths = {"capture": folder / "mock.pcapng"}
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(release="4.3", properties=properties(BROKER), capture=paths["capture"]))
        if packet_recorder.find_capture_tool() is not None:
            paths["packets"] = folder / "mock.pcap"
            port = int(cluster.bootstrap_servers.rsplit(":", 1)[1])
            stack.enter_context(packet_recorder.record_packets(port, paths["packets"]))
        play_scripts(ClockedBroker(cluster))
    return paths


def _path(captures: dict[str, Path], method: str) -> Path:
    if method not in captures:
        reason = "needs tcpdump or dumpcap, and the right to listen to the loopback interface"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return captures[method]


@cache
def _kafka_rows() -> list[list[comparable_rows.Json]]:
    return comparable_rows.comparable_connections(read_rows(SCRIPTS, "messages"))


@pytest.mark.parametrize("method", CAPTURE_METHODS)
def test_exchanges_are_the_same_except_ids_and_times(captures: dict[str, Path], method: str) -> None:
    mock_rows = comparable_rows.comparable_connections(read_rows(_path(captures, method), "messages"))

    for number, (kafka_connection, mock_connection) in enumerate(zip(_kafka_rows(), mock_rows, strict=True)):
        for index, (kafka_row, mock_row) in enumerate(zip(kafka_connection, mock_connection, strict=True)):
            assert difference(kafka_row, mock_row) is None, (number, index, kafka_row["api_name"])
    assert sum(map(len, mock_rows)) > 400
    assert len({row["api_name"] for each in mock_rows for row in each}) > 20


@pytest.mark.parametrize("level", ["share_acquired", "share_acks", "records"])
@pytest.mark.parametrize("method", CAPTURE_METHODS)
def test_rows_of_other_levels_are_the_same(captures: dict[str, Path], method: str, level: str) -> None:
    kafka_rows, mock_rows = (
        comparable_rows.comparable_level_rows(read_rows(path, level)) for path in (SCRIPTS, _path(captures, method))
    )

    assert mock_rows == kafka_rows
    assert len(mock_rows) > 20
