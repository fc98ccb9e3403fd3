"""What a query cannot want is not opened: files of other times, connections of other ends, pieces of other times."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, LessThan, Not

from kwire.capture import index
from kwire.spark.source import PushingReader
from tests.kwire.spark.pieces import pieces, records_of
from tests.kwire.spark.test_filters import CLASSIC, SHARE, reader_of, rows_of

DAY = timedelta(days=1)
HEADS = "file,conn_id,correlation_id,api_name,req_ts,resp_ts,client_port"
Row = dict[str, Any]


def moved(records: list[bytes], *, days: int) -> bytes:
    """The same packets on another day."""
    times = (struct.unpack_from("<I", each)[0] + days * 86_400 for each in records)
    return b"".join(struct.pack("<I", time) + each[4:] for time, each in zip(times, records, strict=True))


@pytest.fixture
def week(tmp_path: Path) -> list[Path]:
    """The same traffic on seven days, a file a day, each of some size."""
    head, records = records_of(SHARE)
    files = []
    for day in range(7):
        seconds = struct.pack("<I", struct.unpack_from("<I", records[0])[0] + day * 86_400)
        padding = seconds + records[0][4:8] + struct.pack("<2I", 60_000, 60_000) + b"\xff" * 60_000
        file = tmp_path / f"day{day}.pcap"
        file.write_bytes(head + padding * 40 + moved(records, days=day))
        files.append(file)
    return files


def day_of(file: Path) -> datetime:
    first = index.built(file).first_ts
    return datetime.fromtimestamp(first // 10**9, UTC)


@contextmanager
def bytes_read() -> Iterator[list[int]]:
    """How many bytes this process reads from files meanwhile, as the system counts them."""

    def count() -> int:
        return int(Path("/proc/self/io").read_text().split("rchar: ")[1].split()[0])

    found: list[int] = []
    before = count()
    yield found
    found.append(count() - before)


def by_times(rows: list[Row], start: datetime, end: datetime) -> list[Row]:
    return [row for row in rows if row["req_ts"] and start <= row["req_ts"].astimezone(UTC) < end]


def comparable(rows: list[Row]) -> list[str]:
    return sorted(map(str, rows))


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="needs a system that counts what is read")
def test_five_minutes_of_a_week_cost_their_own_file(week: list[Path], tmp_path: Path) -> None:
    start = day_of(week[3])
    text = f"time >= '{start:%FT%T}' and time < '{start + timedelta(minutes=5):%FT%T}'"
    everything = rows_of(reader_of(*week, columns=HEADS, index=str(tmp_path)))
    reader = reader_of(*week, columns=HEADS, filter=text, index=str(tmp_path))

    with bytes_read() as read:
        (task,) = reader.partitions()
        found = [row for batch in reader.read(task) for row in batch.to_pylist()]

    assert task.files == [str(week[3])]
    assert comparable(found) == comparable(by_times(everything, start, start + timedelta(minutes=5))) != []
    # One file whole, and both ends of seven.
    assert read[0] < 2 * week[3].stat().st_size + 7 * 512 * 1024 < sum(file.stat().st_size for file in week)


@pytest.mark.parametrize("task_bytes", ["1000000000", "20000"], ids=["whole", "apart"])
def test_filters_of_spark_leave_files_out_too(week: list[Path], tmp_path: Path, task_bytes: str) -> None:
    start = day_of(week[5])
    given = {"columns": HEADS, "index": str(tmp_path / "index"), "task_bytes": task_bytes, "push_filters": "true"}
    everything = rows_of(reader_of(*week, **given))
    reader = reader_of(*week, **given)
    assert isinstance(reader, PushingReader)
    assert (
        list(reader.pushFilters([GreaterThanOrEqual(("req_ts",), start), LessThan(("req_ts",), start + DAY / 2)])) == []
    )

    tasks = reader.partitions()
    found = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]

    assert {file for task in tasks for file in task.files} == {str(week[5])}
    assert comparable(found) == comparable(by_times(everything, start, start + DAY / 2)) != []


@pytest.mark.parametrize(
    ("text", "filters", "ports"),
    [
        ("client_port = 43604", [EqualTo(("client_port",), 43604)], {43604}),
        ("conn = '127.0.0.1:43644'", [EqualTo(("conn_id",), "127.0.0.1:43644>127.0.0.1:21092")], {43644}),
        ("client_port in (43604, 43656)", [In(("client_port",), (43604, 43656))], {43604, 43656}),
        ("client_port != 43604", [Not(EqualTo(("client_port",), 43604))], None),
    ],
)
def test_connections_of_other_ends_are_left_out(
    tmp_path: Path, text: str, filters: list[Filter], ports: set[int] | None
) -> None:
    given = {"columns": HEADS, "index": str(tmp_path), "task_bytes": "1"}
    by_option, by_spark = reader_of(SHARE, filter=text, **given), reader_of(SHARE, push_filters="true", **given)
    assert isinstance(by_spark, PushingReader)
    assert list(by_spark.pushFilters(filters)) == []

    for reader in (by_option, by_spark):
        keys = {key for task in reader.partitions() for key in task.flows or ()}
        if ports is not None:
            assert {max(one[1], other[1]) for one, other in keys} == ports
        assert comparable(rows_of(reader)) == comparable(rows_of(by_option)) != []


def test_pieces_of_a_long_connection_are_left_out_by_their_times(tmp_path: Path) -> None:
    given = {"columns": HEADS, "index": str(tmp_path), "task_bytes": "6000"}
    everything = rows_of(reader_of(CLASSIC, **given))
    last = max(row["req_ts"] for row in everything if row["req_ts"])
    whole = reader_of(CLASSIC, **given)

    late = reader_of(CLASSIC, filter=f"req_ts >= '{last.astimezone(UTC):%FT%H:%M:%S.%f}'", **given)

    assert any(task.packets for task in whole.partitions())
    assert len(late.partitions()) < len(whole.partitions()) / 2
    assert comparable(rows_of(late)) == comparable([row for row in everything if row["req_ts"] == last]) != []


def test_a_request_that_began_before_the_window_is_found_in_a_series(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 6)
    given = {"columns": HEADS, "index": str(tmp_path / "index"), "across_files": "true", "task_bytes": "20000"}
    everything = rows_of(reader_of(*files, **given))
    starts = [index.built(file).first_ts // 1_000 for file in files]
    crossing = [
        row
        for row in everything
        if row["req_ts"]
        and row["resp_ts"]
        and any(_us(row["req_ts"]) < start <= _us(row["resp_ts"]) for start in starts)
    ]
    assert crossing
    window = crossing[0]["resp_ts"].astimezone(UTC)

    reader = reader_of(*files, filter=f"resp_ts >= '{window:%FT%H:%M:%S.%f}' and resp_ts < 2100-01-01", **given)

    expected = [row for row in everything if row["resp_ts"] and row["resp_ts"] >= crossing[0]["resp_ts"]]
    assert comparable(rows_of(reader)) == comparable(expected)
    assert sum(len(task.flows or ()) for task in reader.partitions()) < sum(
        len(task.flows or ()) for task in reader_of(*files, **given).partitions()
    )


def _us(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def test_a_query_that_nothing_can_pass_has_a_task_without_files(week: list[Path], tmp_path: Path) -> None:
    reader = reader_of(*week, filter="time < 2020-01-01", index=str(tmp_path))

    (task,) = reader.partitions()

    assert task.files == []
    assert list(reader.read(task)) == []


def test_packets_in_any_order_are_found_where_it_is_said_that_they_are(tmp_path: Path) -> None:
    head, records = records_of(SHARE)
    file = tmp_path / "merged.pcap"
    file.write_bytes(head + b"".join(records) + moved(records_of(CLASSIC)[1], days=-1) + b"".join(records))
    text = f"time < '{day_of(SHARE) - timedelta(hours=12):%FT%T}'"
    given = {"columns": HEADS, "filter": text}

    in_order = rows_of(reader_of(file, index=str(tmp_path / "index"), **given))
    in_any = rows_of(reader_of(file, index=str(tmp_path / "index"), disorder="any", **given))
    wide = rows_of(reader_of(file, index=str(tmp_path / "index"), disorder="90000", **given))
    index.of(file, cache=tmp_path / "index")
    indexed = rows_of(reader_of(file, index=str(tmp_path / "index"), **given))

    assert in_order == []
    assert in_any == wide == indexed != []
