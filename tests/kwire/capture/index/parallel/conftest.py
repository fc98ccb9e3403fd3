"""Captures for tests of parallel indexing; all spans are small."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.index.scan import scanner
from kwire.capture.model import Packet
from tests.support.captures.capture_files import SHARE, CapturedPacket, build_pcap
from tests.support.captures.index_captures import copy_connections, split_segment
from tests.support.captures.range_indexes import SPAN_SIZE


@pytest.fixture(autouse=True)
def small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "SPAN_SIZE", SPAN_SIZE)


@pytest.fixture(scope="module")
def many_connections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of many concurrent connections, some of them damaged."""
    path = tmp_path_factory.mktemp("many_connections") / "many_connections.pcap"
    path.write_bytes(copy_connections(SHARE, 4, noise=0.02))
    return path


@pytest.fixture(scope="module")
def midstream_connections(many_connections: Path) -> Path:
    """The same connections, which began before the capture; their bodies have many fragments."""
    found = read_packets(many_connections)
    packets = [CapturedPacket(each.ts, each.data) for each in found if isinstance(each, Packet)]
    path = many_connections.with_name("midstream_connections.pcap")
    path.write_bytes(build_pcap([piece for each in packets[len(packets) // 3 :] for piece in split_segment(each, 60)]))
    return path


@pytest.fixture(scope="module")
def many_connections_index(many_connections: Path) -> index.Index:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "SPAN_SIZE", SPAN_SIZE)
        return index.build_index(many_connections)
