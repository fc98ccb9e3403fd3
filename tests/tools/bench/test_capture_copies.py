"""Copies of a capture have the exchanges of the original, also with several requests in a packet."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.capture.reader import read_rows
from tests.support.captures.capture_files import build_pcap
from tests.support.captures.index_captures import connection_with_exchanges, count_flows
from tools.bench.capture_copies import write_copies

BROKER, COUNT = 9092, 8


@pytest.mark.parametrize(("depth", "packets"), [(1, 3 + 2 * COUNT), (3, 3 + 2 * 3), (20, 3 + 2)])
def test_each_copy_has_all_exchanges(tmp_path: Path, depth: int, packets: int) -> None:
    source, out = tmp_path / "one.pcap", tmp_path / "many.pcap"
    source.write_bytes(build_pcap(connection_with_exchanges(COUNT).packets))

    written = write_copies(source, out, copies=2, port=BROKER, depth=depth)

    rows = list(read_rows(out))
    assert written == 2 * packets
    assert [row["status"] for row in rows] == ["ok"] * 2 * COUNT
    assert len({row["conn_id"] for row in rows}) == 2
    assert len({row["req_packet"] for row in rows}) == 2 * ((packets - 3) // 2)
    assert count_flows(out.read_bytes()) == 2
