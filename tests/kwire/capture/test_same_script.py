"""The same client script at a real Kafka and at the mock, both captured: the same rows but for ids and times.

The capture of Kafka is recorded (`kafka_captures.py`); the mock is captured anew, by tcpdump or dumpcap and by
`--capture`.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from kwire.capture.pipeline import rows
from mockbroker import Cluster
from tests.conversations.brokers import properties
from tests.conversations.normal import difference
from tests.conversations.sockets import MovedVenue
from tests.kwire.capture import listening, same_rows
from tests.kwire.capture.kafka_captures import BROKER, SCRIPTS, play_scripts

WAYS = ("capture", "packets")


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both captures of one playing at the mock; "packets" is missing where this user may not listen."""
    folder = tmp_path_factory.mktemp("mock")
    found = {"capture": folder / "mock.pcapng"}
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(properties=properties(BROKER), capture=found["capture"]))
        if listening.tool() is not None:
            found["packets"] = folder / "mock.pcap"
            port = int(cluster.bootstrap_servers.rsplit(":", 1)[1])
            stack.enter_context(listening.listening(port, found["packets"]))
        play_scripts(MovedVenue(cluster))
    return found


def _path(captures: dict[str, Path], way: str) -> Path:
    if way not in captures:
        reason = "needs tcpdump or dumpcap, and the right to listen to the loopback interface"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return captures[way]


@cache
def _of_kafka() -> list[list[same_rows.Json]]:
    return same_rows.conversations(rows(SCRIPTS, "messages"))


@pytest.mark.parametrize("way", WAYS)
def test_every_exchange_is_the_same_but_for_ids_and_times(captures: dict[str, Path], way: str) -> None:
    ours = same_rows.conversations(rows(_path(captures, way), "messages"))

    for number, (want, got) in enumerate(zip(_of_kafka(), ours, strict=True)):
        for index, (theirs, mine) in enumerate(zip(want, got, strict=True)):
            assert difference(theirs, mine) is None, (number, index, theirs["api_name"])
    assert sum(map(len, ours)) > 400
    assert len({row["api_name"] for each in ours for row in each}) > 20


@pytest.mark.parametrize("level", ["share_acquired", "share_acks", "records"])
@pytest.mark.parametrize("way", WAYS)
def test_the_rows_of_other_levels_are_the_same_too(captures: dict[str, Path], way: str, level: str) -> None:
    theirs, ours = (same_rows.of_level(rows(path, level)) for path in (SCRIPTS, _path(captures, way)))

    assert ours == theirs
    assert len(ours) > 20
