"""Packets that go through a shuffle have the rows that they have in their files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kwire
from kwire.capture.options import Options
from kwire.capture.reader import read_rows
from kwire.capture.rows.columns import LEVELS, arrow_schema
from kwire.spark.source import packet_columns, remote_files
from kwire.spark.source.packet_columns import PACKET_SCHEMA, header_batches, packet_batches, sort_packets
from kwire.spark.source.scan_request import ScanRequest
from tests.support.captures.capture_files import SHARE, build_pcap, convert_to_ipv6, read_ip_packets
from tests.support.captures.rotated_captures import pieces
from tests.support.spark.capture_readers import FILE_COLUMNS, Row, comparable

pytestmark = pytest.mark.slow


def shuffled_rows(files: dict[str, bytes], level: str) -> list[Row]:
    """The rows of files whose packets are grouped by hosts, in any order."""
    batches = [batch for path, content in files.items() for batch in packet_batches(path, content, Options())]
    table = pa.Table.from_batches(reversed(batches), PACKET_SCHEMA)
    rows = list[Row]()
    for hosts in table["hosts"].unique():
        group = table.filter(pc.equal(table["hosts"], hosts))
        rows += remote_files.group_rows(group, ScanRequest(level, Options(), arrow_schema(level).names))
    return rows


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("count_max", [7, 128_000])
def test_packets_of_a_series_have_the_rows_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str, count_max: int
) -> None:
    monkeypatch.setattr(packet_columns, "_PART_COUNT", count_max)
    monkeypatch.setattr(packet_columns, "_SENT_COUNT", count_max)
    files = {str(file): file.read_bytes() for file in pieces(SHARE, tmp_path / "in", 4)}

    rows = shuffled_rows(files, level)

    assert comparable(rows, FILE_COLUMNS) == comparable(list(read_rows(str(SHARE), level)), FILE_COLUMNS)
    assert {row["file"] for row in rows} <= files.keys()


def test_issues_of_files_are_counted_together() -> None:
    packets = [each._replace(data=convert_to_ipv6(each.data)) for each in read_ip_packets()[:20]]
    damaged = build_pcap([each._replace(data=each.data[:50]) for each in packets])

    rows = shuffled_rows({"a.pcap": damaged, "b.pcap": damaged + b"\xff" * 40}, "messages")

    found = {(issue["kind"], issue["detail"].partition(" (")[2]) for row in rows for issue in row["issues"]}
    assert ("header_cut", "packet 1, 40 times)") in found
    assert {kind for kind, _ in found} > {"header_cut"}


def test_packets_have_their_numbers_in_their_files(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 3)
    batches = [batch for file in files for batch in packet_batches(str(file), file.read_bytes(), Options())]
    (whole,) = header_batches(sort_packets(pa.Table.from_batches(batches).filter(pc.field("kind").is_null()))[1])

    counts = [kwire.read_capture(file, "packets").num_rows for file in files]
    assert whole.in_files.tolist() == [number for count in counts for number in range(1, count + 1)]
    assert whole.numbers.tolist() == list(range(1, sum(counts) + 1))
