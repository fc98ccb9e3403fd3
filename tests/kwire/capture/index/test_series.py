"""Flows that continue from file to file have the rows of the pipeline, each with its file and packet numbers."""

from __future__ import annotations

import pickle
import random
from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.index import FlowKey, Index, series
from kwire.capture.index.series import SeriesIndex
from kwire.capture.options import Options
from kwire.capture.reader import read_flow_batches
from kwire.capture.rows.columns import level_columns
from kwire.capture.rows.file_names import assign_file_names
from kwire.capture.rows.levels import TRAFFIC_LEVELS
from kwire.capture.rows.record_batches import make_record_batch, selected_columns
from kwire.capture.tls.key_log import KeyLog
from tests.support.capture_model.indexed_segments import read_segments
from tests.support.capture_model.series_state import PipelineState
from tests.support.capture_model.traffic_rows import read_traffic_rows
from tests.support.captures.capture_files import CapturedPacket, build_pcap, read_ip_packets
from tests.support.captures.index_captures import (
    FILES,
    IMPAIRED,
    batch_rows,
    connection_with_exchanges,
    fragment_packet,
)

pytestmark = pytest.mark.slow

IMPAIRMENTS = [name for name in IMPAIRED if "snaplen" not in name]
LEVELS = ["messages", "partitions", "share_acquired", "flows", "packets"]
NAMES = [column.name for column in level_columns("messages")]
HEADER_COLUMNS = [name for name in NAMES if not name.startswith(("body_", "session_"))]
Names = Sequence[str] | None
Flows = Collection[FlowKey] | None


def indexes(folder: Path, packets: Sequence[CapturedPacket], cuts: Sequence[int]) -> list[Index]:
    """Indexes of the capture, divided into files that begin at these packets."""
    out = []
    for number, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(packets)], strict=True)):
        path = folder / f"{number}.pcap"
        path.write_bytes(build_pcap(packets[begin:end]))
        out.append(index.build_index(path))
    return out


def read(found: Sequence[Index], flows: Flows, level: str, names: Names = None) -> list[dict[str, object]]:
    return batch_rows(read_flow_batches(found, flows, level, columns=names, issues=False))


def read_as_stream(found: Sequence[Index], flows: Flows, level: str, names: Names = None) -> list[dict[str, object]]:
    """The rows of the streaming pipeline, which continues from file to file."""
    files = [(each.first_ts, each.file) for each in found]
    segments = read_segments(found, flows, issues=False)
    if level in TRAFFIC_LEVELS:
        rows = list(assign_file_names(read_traffic_rows(segments, level, found[0].file, Options(), KeyLog("")), files))
    else:
        pipeline = PipelineState(level, Options(), KeyLog(""))
        pipeline.files.extend(files)
        rows = list(pipeline.rows(found[0].file, chain(pipeline.outcomes(segments), pipeline.close())))
    found_rows: list[dict[str, object]] = make_record_batch(rows, level, selected_columns(level, names)).to_pylist()
    return found_rows


def assert_same(found: Sequence[Index], flows: Flows = None, level: str = "messages") -> None:
    # The pipeline reports open sessions of ended connections later.
    names = HEADER_COLUMNS if level == "messages" else None
    rows, expected = (each(found, flows, level, names) for each in (read, read_as_stream))
    assert sorted(map(repr, rows)) == sorted(map(repr, expected))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("impairment", ["whole", *IMPAIRMENTS])
def test_captures_in_several_files_have_the_rows_of_one_file(impairment: str, level: str, tmp_path: Path) -> None:
    chance = random.Random(f"{impairment} {level}")

    for path in chance.sample(FILES, 4):
        packets = read_ip_packets(path)[:400]
        packets = packets if impairment == "whole" else IMPAIRED[impairment](packets)
        found = indexes(tmp_path, packets, sorted(chance.sample(range(1, len(packets)), chance.randrange(1, 6))))
        flows = sorted({flow.key for each in found for flow in each.flows})
        assert_same(found, None, level)
        assert_same(found, frozenset(chance.sample(flows, len(flows) // 2)), level)


@pytest.mark.parametrize("level", LEVELS)
def test_each_file_of_a_series_has_fragmented_payload_of_its_own(level: str, tmp_path: Path) -> None:
    pairs = [fragment_packet(each) for each in read_ip_packets()]
    packets, parts = list(chain(*pairs)), len(pairs) // 4
    cuts = [len(list(chain(*pairs[: part * parts]))) for part in (1, 2, 3)]
    found = indexes(tmp_path, packets, cuts)

    assert all(sum(size for _, size in each.stored) for each in found)
    assert_same(found, None, level)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_column_of_real_captures_in_three_files(path: Path, tmp_path: Path) -> None:
    packets = read_ip_packets(path)
    found = indexes(tmp_path, packets, [len(packets) // 3, len(packets) * 2 // 3])

    assert read(found, None, "messages") == read_as_stream(found, None, "messages")


def test_a_connection_that_continues_is_one_flow_in_each_later_file(tmp_path: Path) -> None:
    found = indexes(tmp_path, connection_with_exchanges(60).close().packets, [41, 80, 101])
    whole = SeriesIndex(found)

    assert [len(each.flows) for each in (*found, whole)] == [1] * 5
    rows = read(found, None, "messages")
    assert [row["correlation_id"] for row in rows] == list(range(60))
    assert {row["status"] for row in rows} == {"ok"}
    names = [Path(str(row["file"])).name for row in rows]
    assert names == sorted(names)
    assert set(names) == {"0.pcap", "1.pcap", "2.pcap", "3.pcap"}
    # The second file begins with a response.
    assert [(row["req_packet"], row["resp_packet"]) for row in rows[18:21]] == [(40, 41), (1, 2), (3, 4)]


def test_a_name_from_the_user_is_the_file_of_all_rows(tmp_path: Path) -> None:
    found = indexes(tmp_path, read_ip_packets(), [50, 100])

    for level in ("messages", "partitions", "flows"):
        rows = batch_rows(read_flow_batches(found, None, level, Options(name="mine")))
        assert {row["file"] for row in rows} == {"mine"}


def test_connections_name_the_file_in_which_they_begin(tmp_path: Path) -> None:
    found = indexes(tmp_path, read_ip_packets(), [50, 100])

    names = {Path(str(row["file"])).name for row in read(found, None, "flows")}
    assert names == {"0.pcap", "1.pcap", "2.pcap"}


def test_a_series_may_have_more_files_than_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "_OPEN_MAX", 2)
    packets = read_ip_packets()

    assert_same(indexes(tmp_path, packets, range(9, len(packets), 9)))


def test_a_pickled_series_has_the_same_rows(tmp_path: Path) -> None:
    found = indexes(tmp_path, read_ip_packets(), [50, 100])
    whole = SeriesIndex(found, frozenset({found[0].flows[0].key}))
    unpickled = pickle.loads(pickle.dumps(whole))

    assert unpickled.flows == whole.flows
    assert batch_rows(read_flow_batches([unpickled], None)) == batch_rows(read_flow_batches([whole], None))
