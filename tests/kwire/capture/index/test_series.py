"""Flows that go on from file to file have the rows of the generators, each with its file and its own packet numbers."""

from __future__ import annotations

import pickle
import random
import struct
from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest

from kwire.capture import arrow, index
from kwire.capture.carried import Carried
from kwire.capture.index import FlowKey, Index, series
from kwire.capture.index.series import Series
from kwire.capture.keylog import KeyLog
from kwire.capture.named import named
from kwire.capture.options import Options
from kwire.capture.pipeline import gathered, ordered, row_maker
from kwire.capture.schemas import columns
from tests.kwire.capture.index.kit import FILES, IMPAIRED
from tests.kwire.capture.wire import Talk, Wire, ip_packets, pcap

WAYS = [name for name in IMPAIRED if "snaplen" not in name]
LEVELS = ["messages", "partitions", "share_acquired"]
HEADS = [column.name for column in columns("messages") if not column.name.startswith(("body_", "session_"))]


def indexes(folder: Path, wires: Sequence[Wire], cuts: Sequence[int]) -> list[Index]:
    """The capture in files that begin at these packets."""
    out = []
    for number, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(wires)], strict=True)):
        path = folder / f"{number}.pcap"
        path.write_bytes(pcap(wires[begin:end]))
        out.append(index.built(path))
    return out


def read(
    found: Sequence[Index], flows: Collection[FlowKey] | None, level: str, names: Sequence[str] | None = None
) -> list[dict[str, object]]:
    batches = arrow.flow_batches(found, flows, level, columns=names, troubles=False)
    return [row for batch in batches for row in batch.to_pylist()]


def generated(
    found: Sequence[Index], flows: Collection[FlowKey] | None, level: str, names: Sequence[str] | None = None
) -> list[dict[str, object]]:
    """The rows of the generators, which go on from file to file."""
    carried = Carried(level, Options(), KeyLog(""))
    carried.files.extend((each.first_ts, each.file) for each in found)
    outcomes = chain(carried.outcomes(index.segments_of(found, flows, troubles=False)), carried.close())
    make = row_maker(level, found[0].file, Options(), carried.names)
    rows = list(named(ordered(gathered(outcomes), make), carried.files))
    found_rows: list[dict[str, object]] = arrow.record_batch(rows, level, arrow.names_of(level, names)).to_pylist()
    return found_rows


def assert_same(found: Sequence[Index], flows: Collection[FlowKey] | None = None, level: str = "messages") -> None:
    # What is left of a session when its connection has ended, the generators tell later.
    names = HEADS if level == "messages" else None
    assert sorted(map(repr, read(found, flows, level, names))) == sorted(
        map(repr, generated(found, flows, level, names))
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", ["whole", *WAYS])
def test_captures_in_any_number_of_files_have_the_rows_of_one(way: str, level: str, tmp_path: Path) -> None:
    chance = random.Random(f"{way} {level}")

    for path in chance.sample(FILES, 4):
        wires = ip_packets(path)[:400]
        wires = wires if way == "whole" else IMPAIRED[way](wires)
        found = indexes(tmp_path, wires, sorted(chance.sample(range(1, len(wires)), chance.randrange(1, 6))))
        flows = sorted({flow.key for each in found for flow in each.flows})
        assert_same(found, None, level)
        assert_same(found, frozenset(chance.sample(flows, len(flows) // 2)), level)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_column_of_real_captures_in_three_files(path: Path, tmp_path: Path) -> None:
    wires = ip_packets(path)
    found = indexes(tmp_path, wires, [len(wires) // 3, len(wires) * 2 // 3])

    assert read(found, None, "messages") == generated(found, None, "messages")


def test_the_rest_of_a_connection_is_clean_in_each_file_behind_the_first(tmp_path: Path) -> None:
    talk = Talk().open()
    for number in range(60):
        talk.asks(struct.pack(">hhih", 16, 0, number, -1)).answers(struct.pack(">ihi", number, 0, 0))
    found = indexes(tmp_path, talk.close().wires, [41, 80, 101])
    whole = Series(found)

    assert [flow.why for each in (*found, whole) for flow in each.flows] == ["clean"] * 5
    rows = read(found, None, "messages")
    assert [row["correlation_id"] for row in rows] == list(range(60))
    assert {row["status"] for row in rows} == {"ok"}
    names = [Path(str(row["file"])).name for row in rows]
    assert names == sorted(names)
    assert set(names) == {"0.pcap", "1.pcap", "2.pcap", "3.pcap"}
    # The second file begins with an answer.
    assert [(row["req_packet"], row["resp_packet"]) for row in rows if row["correlation_id"] in {18, 19, 20}] == [
        (40, 41),
        (1, 2),
        (3, 4),
    ]


def test_a_name_that_the_user_gave_is_the_file_of_all_rows(tmp_path: Path) -> None:
    found = indexes(tmp_path, ip_packets(), [50, 100])

    for level in ("messages", "partitions", "flows"):
        batches = arrow.flow_batches(found, None, level, Options(name="mine"))
        assert {row["file"] for batch in batches for row in batch.to_pylist()} == {"mine"}


def test_connections_name_the_file_in_which_they_begin(tmp_path: Path) -> None:
    found = indexes(tmp_path, ip_packets(), [50, 100])

    names = {Path(str(row["file"])).name for row in read(found, None, "flows")}
    assert names == {"0.pcap", "1.pcap", "2.pcap"}


def test_a_series_of_more_files_than_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "_OPEN_MAX", 2)
    wires = ip_packets()

    assert_same(indexes(tmp_path, wires, range(9, len(wires), 9)))


def test_a_series_travels_as_its_indexes_do(tmp_path: Path) -> None:
    found = indexes(tmp_path, ip_packets(), [50, 100])
    whole = Series(found, frozenset({found[0].flows[0].key}))
    again = pickle.loads(pickle.dumps(whole))

    assert again.flows == whole.flows
    assert pa.Table.from_batches(arrow.flow_batches([again], None)).equals(
        pa.Table.from_batches(arrow.flow_batches([whole], None))
    )
