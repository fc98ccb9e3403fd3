"""Pruning: files of other times, connections of other endpoints, and parts of connections are not opened."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, LessThan, Not

from kwire.capture import index
from kwire.spark.data_source import PushingReader
from tests.support.captures.capture_files import CAPTURES, SHARE
from tests.support.captures.rotated_captures import pieces, records_of
from tests.support.spark.capture_readers import Row, comparable, open_reader, read_all

pytestmark = pytest.mark.slow

CLASSIC = CAPTURES / "small_ck.pcap"

DAY = timedelta(days=1)
HEADS = "file,conn_id,correlation_id,api_name,req_ts,resp_ts,client_port"


def shift_days(records: list[bytes], *, days: int) -> bytes:
    """The same packets on another day."""
    times = (struct.unpack_from("<I", each)[0] + days * 86_400 for each in records)
    return b"".join(struct.pack("<I", time) + each[4:] for time, each in zip(times, records, strict=True))


@pytest.fixture
def week(tmp_path: Path) -> list[Path]:
    """The same traffic on seven days, one large file per day."""
    head, records = records_of(SHARE)
    files = []
    for day in range(7):
        seconds = struct.pack("<I", struct.unpack_from("<I", records[0])[0] + day * 86_400)
        padding = seconds + records[0][4:8] + struct.pack("<2I", 60_000, 60_000) + b"\xff" * 60_000
        file = tmp_path / f"day{day}.pcap"
        file.write_bytes(head + padding * 40 + shift_days(records, days=day))
        files.append(file)
    return files


def day_of(file: Path) -> datetime:
    first = index.build_index(file).first_ts
    return datetime.fromtimestamp(first // 10**9, UTC)


@contextmanager
def bytes_read() -> Iterator[list[int]]:
    """The number of bytes that this process reads from files within the context, by the system's count."""

    def count() -> int:
        return int(Path("/proc/self/io").read_text().split("rchar: ")[1].split()[0])

    found: list[int] = []
    before = count()
    yield found
    found.append(count() - before)


def by_times(rows: list[Row], start: datetime, end: datetime) -> list[Row]:
    return [row for row in rows if row["req_ts"] and start <= row["req_ts"].astimezone(UTC) < end]


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="needs a system that counts what is read")
def test_five_minutes_of_a_week_read_only_their_own_file(week: list[Path], tmp_path: Path) -> None:
    start = day_of(week[3])
    text = f"time >= '{start:%FT%T}' and time < '{start + timedelta(minutes=5):%FT%T}'"
    everything = read_all(open_reader(*week, columns=HEADS, index=str(tmp_path)))
    reader = open_reader(*week, columns=HEADS, filter=text, index=str(tmp_path))

    with bytes_read() as read:
        (task,) = reader.partitions()
        found = [row for batch in reader.read(task) for row in batch.to_pylist()]

    assert task.files == [str(week[3])]
    assert comparable(found) == comparable(by_times(everything, start, start + timedelta(minutes=5))) != []
    # One complete file, and both ends of seven files.
    assert read[0] < 2 * week[3].stat().st_size + 7 * 512 * 1024 < sum(file.stat().st_size for file in week)


@pytest.mark.parametrize("task_bytes", ["1000000000", "20000"], ids=["whole", "apart"])
def test_filters_of_spark_exclude_files_too(week: list[Path], tmp_path: Path, task_bytes: str) -> None:
    start = day_of(week[5])
    given = {"columns": HEADS, "index": str(tmp_path / "index"), "task_bytes": task_bytes, "push_filters": "true"}
    everything = read_all(open_reader(*week, **given))
    reader = open_reader(*week, **given)
    assert isinstance(reader, PushingReader)
    filters = [GreaterThanOrEqual(("req_ts",), start), LessThan(("req_ts",), start + DAY / 2)]
    assert list(reader.pushFilters(filters)) == []

    tasks, found = reader.partitions(), read_all(reader)

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
def test_connections_of_other_endpoints_are_excluded(
    tmp_path: Path, text: str, filters: list[Filter], ports: set[int] | None
) -> None:
    given = {"columns": HEADS, "index": str(tmp_path), "task_bytes": "1"}
    by_option, by_spark = open_reader(SHARE, filter=text, **given), open_reader(SHARE, push_filters="true", **given)
    assert isinstance(by_spark, PushingReader)
    assert list(by_spark.pushFilters(filters)) == []

    for reader in (by_option, by_spark):
        keys = {key for task in reader.partitions() for key in task.flows or ()}
        if ports is not None:
            assert {max(one[1], other[1]) for one, other in keys} == ports
        assert comparable(read_all(reader)) == comparable(read_all(by_option)) != []


def test_parts_of_a_long_connection_are_excluded_by_time(tmp_path: Path) -> None:
    given = {"columns": HEADS, "index": str(tmp_path), "task_bytes": "6000"}
    everything = read_all(open_reader(CLASSIC, **given))
    last = max(row["req_ts"] for row in everything if row["req_ts"])
    whole = open_reader(CLASSIC, **given)

    late = open_reader(CLASSIC, filter=f"req_ts >= '{last.astimezone(UTC):%FT%H:%M:%S.%f}'", **given)

    assert any(task.packets for task in whole.partitions())
    assert len(late.partitions()) < len(whole.partitions()) / 2
    assert comparable(read_all(late)) == comparable([row for row in everything if row["req_ts"] == last]) != []


def test_a_request_from_before_the_window_is_found_in_a_series(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 6)
    given = {"columns": HEADS, "index": str(tmp_path / "index"), "across_files": "true", "task_bytes": "20000"}
    everything = read_all(open_reader(*files, **given))
    starts = [index.build_index(file).first_ts // 1_000 for file in files]
    answered = [row for row in everything if row["req_ts"] and row["resp_ts"]]
    times = [(_us(row["req_ts"]), _us(row["resp_ts"]), row["resp_ts"]) for row in answered]
    end = next(resp_ts for first, last, resp_ts in times if any(first < start <= last for start in starts))
    window = end.astimezone(UTC)

    reader = open_reader(*files, filter=f"resp_ts >= '{window:%FT%H:%M:%S.%f}' and resp_ts < 2100-01-01", **given)

    expected = [row for row in everything if row["resp_ts"] and row["resp_ts"] >= end]
    assert comparable(read_all(reader)) == comparable(expected)
    tasks, all_tasks = reader.partitions(), open_reader(*files, **given).partitions()
    assert sum(len(task.flows or ()) for task in tasks) < sum(len(task.flows or ()) for task in all_tasks)


def _us(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def test_a_query_without_possible_rows_has_a_task_without_files(week: list[Path], tmp_path: Path) -> None:
    reader = open_reader(*week, filter="time < 2020-01-01", index=str(tmp_path))

    (task,) = reader.partitions()

    assert task.files == []
    assert list(reader.read(task)) == []


def test_packets_in_any_order_are_found_with_option_disorder(tmp_path: Path) -> None:
    head, records = records_of(SHARE)
    file = tmp_path / "merged.pcap"
    file.write_bytes(head + b"".join(records) + shift_days(records_of(CLASSIC)[1], days=-1) + b"".join(records))
    text = f"time < '{day_of(SHARE) - timedelta(hours=12):%FT%T}'"
    given = {"columns": HEADS, "filter": text, "index": str(tmp_path / "index")}

    in_order = read_all(open_reader(file, **given))
    in_any = read_all(open_reader(file, disorder="any", **given))
    wide = read_all(open_reader(file, disorder="90000", **given))
    index.open_index(file, cache=tmp_path / "index")
    indexed = read_all(open_reader(file, **given))

    assert in_order == []
    assert in_any == wide == indexed != []
