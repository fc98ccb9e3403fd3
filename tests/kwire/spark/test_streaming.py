"""A folder of rolling captures as a stream: each row once, connections that go on from file to file, clean restarts.

All but two tests drive the reader as Spark does, without a JVM.
"""

from __future__ import annotations

import gzip
import os
import pickle
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxFiles

import kwire
from kwire.capture.schemas import LEVELS
from kwire.spark.journal import StateError, load_carried
from kwire.spark.source import CaptureDataSource
from kwire.spark.streaming import CaptureStreamReader
from tests.kwire.spark.pieces import pieces, records_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CAPTURES = Path(__file__).parents[2] / "captures"
SHARE = CAPTURES / "small_share.pcap"
ALL = ReadAllAvailable()
# A row that waited for another file says the same but for its place: packets are counted by file.
PLACES = {"file", "req_packet", "resp_packet", "number", "first_packet", "last_packet"}

LEFT_OPEN = {"messages": 4, "partitions": 4, "flows": 10, "packets": 40}

Row = dict[str, Any]


def reader_of(folder: Path, **given: str) -> CaptureStreamReader:
    source = CaptureDataSource({"path": str(folder / "in"), "state": str(folder / "state"), **given})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, CaptureStreamReader)
    return reader


def batch_of(reader: CaptureStreamReader, start: dict[str, int], end: dict[str, int]) -> list[Row]:
    """The rows of one batch, each task in a process of its own as far as it can tell."""
    found = []
    for task in reader.partitions(start, end):
        for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(task))):
            found += batch.to_pylist()
    return found


def batches_of(reader: CaptureStreamReader, start: int = 0, limit: ReadLimit = ALL) -> Iterator[list[Row]]:
    """Batch after batch until nothing is left."""
    at = {"batch": start}
    while (end := reader.latestOffset(at, limit)) != at:
        yield batch_of(reader, at, end)
        reader.commit(end)
        at = end


def comparable(rows: list[Row]) -> list[str]:
    return sorted(str({name: value for name, value in row.items() if name not in PLACES}) for row in rows)


def cut_at(packet: int, folder: Path) -> None:
    """The capture in two files, the second of which begins behind this packet."""
    head, records = records_of(SHARE)
    folder.mkdir()
    for name, part in (("1.pcap", records[:packet]), ("2.pcap", records[packet:])):
        (folder / name).write_bytes(head + b"".join(part))
        os.utime(folder / name, (1, 1))


def slow_exchange() -> dict[str, Any]:
    """One whose response came some packets after its request."""
    rows: list[dict[str, Any]] = kwire.read_capture(SHARE).to_pylist()
    return next(row for row in rows if row["status"] == "ok" and row["resp_packet"] > row["req_packet"] + 2)


@pytest.mark.parametrize("level", LEVELS)
def test_files_one_by_one_give_the_rows_of_the_whole_capture(tmp_path: Path, level: str) -> None:
    pieces(SHARE, tmp_path / "in", 6)
    reader = reader_of(tmp_path, level=level)

    batches = list(batches_of(reader, limit=ReadMaxFiles(1)))

    whole = comparable(kwire.read_capture(SHARE, level).to_pylist())
    found = comparable([row for rows in batches for row in rows])
    assert len(batches) == 6
    assert set(found) <= set(whole)
    # What the whole capture leaves open stays in the state.
    assert len(whole) - len(found) <= LEFT_OPEN.get(level, 0)


def test_a_request_in_one_file_meets_its_response_in_the_next(tmp_path: Path) -> None:
    row = slow_exchange()
    cut_at(row["req_packet"], tmp_path / "in")

    first, second = batches_of(reader_of(tmp_path), limit=ReadMaxFiles(1))

    key = row["conn_id"], row["correlation_id"]
    assert key not in [(each["conn_id"], each["correlation_id"]) for each in first]
    found = next(each for each in second if (each["conn_id"], each["correlation_id"]) == key)
    assert comparable([found]) == comparable([row])
    assert found["file"] == str(tmp_path / "in" / "1.pcap")


@pytest.mark.parametrize("task_count", ["1", "3"])
def test_a_batch_that_runs_again_gives_the_same_rows(tmp_path: Path, task_count: str) -> None:
    pieces(SHARE, tmp_path / "in", 3)
    reader = reader_of(tmp_path, stream_tasks=task_count)
    once = list(batches_of(reader, limit=ReadMaxFiles(1)))

    again = batch_of(reader_of(tmp_path, stream_tasks=task_count), {"batch": 2}, {"batch": 3})

    assert again == once[2] != []


def taken_in_part(reader: CaptureStreamReader, start: int, end: int, tasks: int) -> None:
    """A sink that runs only the first tasks of a batch, and takes no more of them than their first rows."""
    for task in reader.partitions({"batch": start}, {"batch": end})[:tasks]:
        next(iter(reader.read(task)), None)


@pytest.mark.parametrize("task_count", [0, 1, 3])
@pytest.mark.parametrize("skipped", [{1}, {2}, {1, 2, 3}, {2, 4}])
def test_batches_that_a_sink_does_not_read_whole_take_nothing_from_the_next(
    tmp_path: Path, skipped: set[int], task_count: int
) -> None:
    pieces(SHARE, tmp_path / "in", 6)
    shutil.copytree(tmp_path / "in", tmp_path / "once" / "in")
    once = list(batches_of(reader_of(tmp_path / "once", stream_tasks="3"), limit=ReadMaxFiles(1)))
    reader = reader_of(tmp_path, stream_tasks="3")

    for number in range(1, 7):
        start, end = {"batch": number - 1}, reader.latestOffset({"batch": number - 1}, ReadMaxFiles(1))
        if number in skipped:
            taken_in_part(reader, number - 1, number, task_count)
        else:
            assert comparable(batch_of(reader, start, end)) == comparable(once[number - 1])
        reader.commit(end)


def test_lists_and_states_stay_until_a_sink_reads_whole_batches_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.spark.journal._KEPT_COUNT_MAX", 0)
    pieces(SHARE, tmp_path / "in", 12)
    reader = reader_of(tmp_path, stream_tasks="2")
    for number in range(1, 9):
        end = reader.latestOffset({"batch": number - 1}, ReadMaxFiles(1))
        batch_of(reader, {"batch": number - 1}, end) if number < 3 else taken_in_part(reader, number - 1, number, 1)
        reader.commit(end)
    kept = {each.name for each in (tmp_path / "state" / "batches").iterdir()}

    rest = list(batches_of(reader, start=8, limit=ReadMaxFiles(1)))

    assert kept >= {f"{number}.json" for number in range(3, 9)}
    assert len(rest) == 4
    assert {each.name for each in (tmp_path / "state" / "carried").iterdir()} == {"11", "12"}
    assert len(list((tmp_path / "state" / "batches").iterdir())) <= 3


def test_a_restart_takes_the_batch_that_was_planned_before_the_end(tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 4)
    reader = reader_of(tmp_path)
    planned = reader.latestOffset({"batch": 0}, ReadMaxFiles(2))

    again = reader_of(tmp_path)

    assert again.latestOffset({"batch": 0}, ALL) == planned
    assert [len(batch.files) for task in again.partitions({"batch": 0}, planned)[:1] for batch in task.batches] == [2]


def test_a_late_file_is_read_alone_and_said_to_be_late(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 3)
    shutil.move(files[0], tmp_path / "late")
    reader = reader_of(tmp_path)
    before = [row for rows in batches_of(reader) for row in rows]
    shutil.move(tmp_path / "late", files[0])

    (after,) = batches_of(reader, start=1)

    alone = kwire.read_capture(files[0]).to_pylist()
    told = [row for row in after if row["status"] == "undecodable" and "file_late" in str(row["issues"])]
    assert before
    assert len(told) == 1
    assert comparable([row for row in after if row not in told]) == comparable(alone)


@pytest.mark.parametrize("content", [records_of(SHARE)[0], b"no capture at all"], ids=["empty", "broken"])
@pytest.mark.parametrize("limit", [ReadMaxFiles(1), ALL], ids=["one", "all"])
def test_a_file_without_packets_makes_no_other_late(tmp_path: Path, content: bytes, limit: ReadLimit) -> None:
    files = pieces(SHARE, tmp_path / "in", 2)
    shutil.move(files[1], tmp_path / "later")
    (tmp_path / "in" / "changed-now.pcap").write_bytes(content)
    reader = reader_of(tmp_path, closed_after="0")
    before = list(batches_of(reader, limit=limit))
    shutil.move(tmp_path / "later", files[1])

    (after,) = batches_of(reader, start=len(before))

    rows = [row for row in (*chain(*before), *after) if "file_unreadable" not in str(row["issues"])]
    assert len(rows) == len(kwire.read_capture(SHARE)) - LEFT_OPEN["messages"]
    assert set(comparable(rows)) <= set(comparable(kwire.read_capture(SHARE).to_pylist()))


def test_a_file_without_packets_is_never_late_and_read_once(tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 1)
    reader = reader_of(tmp_path)
    list(batches_of(reader))
    (tmp_path / "in" / "empty.pcap").write_bytes(records_of(SHARE)[0])
    os.utime(tmp_path / "in" / "empty.pcap", (1, 1))

    assert list(batches_of(reader, start=1)) == [[]]
    assert list(batches_of(reader, start=2)) == []


def test_a_file_is_late_too_when_the_newer_ones_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.spark.journal._KEPT_COUNT_MAX", 0)
    files = pieces(SHARE, tmp_path / "in", 4)
    shutil.move(files[0], tmp_path / "late")
    reader = reader_of(tmp_path)
    assert len(list(batches_of(reader))) == 1
    for file in files[1:]:
        file.unlink()
    for start in (1, 2, 3):
        (tmp_path / "in" / f"{start}.pcap").write_bytes(records_of(SHARE)[0])
        os.utime(tmp_path / "in" / f"{start}.pcap", (1, 1))
        list(batches_of(reader, start=start))
    shutil.move(tmp_path / "late", files[0])

    (after,) = batches_of(reader, start=4)

    assert "file_late" in str(after)


def test_a_file_that_grows_after_it_was_read_is_told(tmp_path: Path) -> None:
    (file,) = pieces(SHARE, tmp_path / "in", 1)
    reader = reader_of(tmp_path)
    list(batches_of(reader))
    file.write_bytes(file.read_bytes() + b"more")
    os.utime(file, (1, 1))

    (told,) = batches_of(reader, start=1)

    assert [(row["file"], "file_grew" in str(row["issues"])) for row in told] == [(str(file), True)]
    assert list(batches_of(reader, start=2)) == []


def test_a_file_that_is_no_capture_is_a_row_and_stops_nothing(tmp_path: Path) -> None:
    (file,) = pieces(SHARE, tmp_path / "in", 1)
    (file.parent / "other.pcap").write_bytes(b"no capture at all")
    os.utime(file.parent / "other.pcap", (2, 2))

    (rows,) = batches_of(reader_of(tmp_path))

    assert sum("file_unreadable" in str(row["issues"]) for row in rows) == 1
    assert sum(row["status"] == "ok" for row in rows) > 30


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_that_goes_between_plan_and_read_is_a_row_and_stops_nothing(tmp_path: Path, suffix: str) -> None:
    files = pieces(SHARE, tmp_path / "in", 2)
    gone = files[0].rename(f"{files[0]}{suffix}")
    reader = reader_of(tmp_path, stream_tasks="2")
    planned = reader.latestOffset({"batch": 0}, ALL)
    gone.unlink()

    rows = batch_of(reader, {"batch": 0}, planned)

    told = [(row["file"], row["issues"][0]["detail"]) for row in rows if "file_gone" in str(row["issues"])]
    assert told == [
        (str(gone), f"it was taken away before the connections of task {task} of 2 were read") for task in (1, 2)
    ]
    assert len(rows) > len(told)


def test_a_file_that_goes_when_the_first_task_has_read_it_is_told_by_the_others(tmp_path: Path) -> None:
    (file,) = pieces(SHARE, tmp_path / "in", 1)
    reader = reader_of(tmp_path, stream_tasks="2")
    first, second = reader.partitions({"batch": 0}, reader.latestOffset({"batch": 0}, ALL))
    before = [row for batch in reader.read(first) for row in batch.to_pylist()]
    file.unlink()

    after = [row for batch in reader.read(second) for row in batch.to_pylist()]

    assert "file_gone" not in str(before)
    assert [row["issues"][0]["kind"] for row in after] == ["file_gone"]


def test_packed_files_are_followed_too(tmp_path: Path) -> None:
    for file in pieces(SHARE, tmp_path / "in", 3):
        packed = file.with_name(file.name + ".gz")
        packed.write_bytes(gzip.compress(file.read_bytes()))
        os.utime(packed, (1, 1))
        file.unlink()

    found = [row for rows in batches_of(reader_of(tmp_path), limit=ReadMaxFiles(1)) for row in rows]

    assert set(comparable(found)) <= set(comparable(kwire.read_capture(SHARE).to_pylist()))
    assert len(kwire.read_capture(SHARE)) - len(found) <= LEFT_OPEN["messages"]


def test_files_that_are_still_written_are_left_for_later(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 2)
    os.utime(files[1])

    reader = reader_of(tmp_path, closed_after="3600")
    list(batches_of(reader))

    assert [file.path for file in reader.journal.read_before(1)] == [str(files[0])]


def test_a_name_that_a_ring_uses_again_is_a_new_file(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 3)
    shutil.move(files[2], tmp_path / "next")
    reader = reader_of(tmp_path)
    (first,) = batches_of(reader)
    shutil.move(tmp_path / "next", files[0])

    (second,) = batches_of(reader, start=1)

    assert first
    assert {row["status"] for row in second} == {"ok"}


@pytest.mark.parametrize(
    ("given", "limit"),
    [({"maxfilespertrigger": "2"}, ReadMaxFiles(2)), ({"maxbytespertrigger": "100"}, ReadMaxBytes(100)), ({}, ALL)],
)
def test_the_limit_is_the_one_of_the_option(tmp_path: Path, given: dict[str, str], limit: ReadLimit) -> None:
    assert reader_of(tmp_path, **given).getDefaultReadLimit() == limit


def test_a_limit_in_bytes_takes_whole_files_and_one_at_least(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 4)
    size = files[0].stat().st_size + files[1].stat().st_size
    small, large = reader_of(tmp_path), reader_of(tmp_path)

    small.latestOffset({"batch": 0}, ReadMaxBytes(1))
    large.latestOffset({"batch": 1}, ReadMaxBytes(size))

    assert len(small.journal.required(1).files) == 1
    assert len(large.journal.required(2).files) >= 1


def test_available_now_leaves_what_comes_later(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 3)
    shutil.move(files[2], tmp_path / "later")
    reader = reader_of(tmp_path)
    reader.prepareForTriggerAvailableNow()
    shutil.move(tmp_path / "later", files[2])

    batches = list(batches_of(reader, limit=ReadMaxFiles(1)))

    assert len(batches) == 2


def test_requests_that_wait_for_too_long_are_given_up(tmp_path: Path) -> None:
    row = slow_exchange()
    cut_at(row["resp_packet"] - 1, tmp_path / "in")

    first, _ = batches_of(reader_of(tmp_path, state_timeout="0"), limit=ReadMaxFiles(1))

    given_up = [each for each in first if each["correlation_id"] == row["correlation_id"]]
    assert [each["status"] for each in given_up if each["conn_id"] == row["conn_id"]] == ["no_response"]


def test_state_does_not_grow_with_the_number_of_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.spark.journal._KEPT_COUNT_MAX", 3)
    pieces(SHARE, tmp_path / "in", 12)
    reader = reader_of(tmp_path, stream_tasks="1")

    batches = list(batches_of(reader, limit=ReadMaxFiles(1)))

    assert len(batches) == 12
    assert len(list((tmp_path / "state" / "carried").iterdir())) <= 3
    assert len(list((tmp_path / "state" / "batches").iterdir())) <= 6
    assert len(list(reader.journal.read_before(12))) == 12


@pytest.mark.parametrize("given", [{"level": "records"}, {"stream_tasks": "9"}])
def test_a_state_of_another_query_is_refused(tmp_path: Path, given: dict[str, str]) -> None:
    pieces(SHARE, tmp_path / "in", 1)
    list(batches_of(reader_of(tmp_path)))

    with pytest.raises(StateError, match="give it another state folder"):
        list(batches_of(reader_of(tmp_path, **given)))


def test_a_state_that_is_damaged_or_does_not_fit_is_refused(tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 2)
    reader = reader_of(tmp_path)
    _, second = batches_of(reader, limit=ReadMaxFiles(1))
    place = tmp_path / "state" / "carried" / "1" / "0"

    place.write_bytes(place.read_bytes()[:-1] + b"x")
    with pytest.raises(StateError, match="is damaged"):
        batch_of(reader, {"batch": 1}, {"batch": 2})
    place.unlink()
    assert batch_of(reader, {"batch": 1}, {"batch": 2}) == second
    place.unlink()
    (tmp_path / "state" / "batches" / "1.json").unlink()
    with pytest.raises(StateError, match="has no batch 1"):
        batch_of(reader, {"batch": 1}, {"batch": 2})
    with pytest.raises(StateError, match="is missing"):
        load_carried(str(tmp_path / "state"), 1, 0)
    with pytest.raises(StateError, match="do not fit together"):
        reader.partitions({"batch": 7}, {"batch": 8})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"state": ""}, "readStream needs option state"),
        ({"maxfilespertrigger": "0"}, "expected a number above 0"),
        ({"maxfilespertrigger": "1", "maxbytespertrigger": "1"}, "only one can be given"),
        ({"closed_after": "-1"}, "0 or more"),
        ({"colour": "red"}, "no option colour"),
    ],
)
def test_a_wrong_option_of_a_stream_is_an_error(tmp_path: Path, given: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        reader_of(tmp_path, **given)


@pytest.mark.spark
def test_spark_follows_a_folder_and_goes_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 4)
    shutil.move(files[3], tmp_path / "later")

    def run() -> int:
        rows = (
            spark.readStream.format("kafka_capture")
            .option("state", str(tmp_path / "state"))
            .option("stream_tasks", "2")
            .option("maxFilesPerTrigger", "2")
            .load(str(tmp_path / "in"))
        )
        sink = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.trigger(availableNow=True).start(str(tmp_path / "out"))
        query.awaitTermination()
        return sum(progress["numInputRows"] > 0 for progress in query.recentProgress)

    first = run()
    shutil.move(tmp_path / "later", files[3])
    second = run()
    third = run()

    assert (first, second, third) == (2, 1, 0)
    found = comparable(spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist())
    assert set(found) <= set(comparable(kwire.read_capture(SHARE).to_pylist()))
    assert len(found) == len(kwire.read_capture(SHARE)) - LEFT_OPEN["messages"]


@pytest.mark.spark
def test_spark_goes_on_behind_batches_that_a_function_did_not_read_whole(spark: SparkSession, tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 4)
    shutil.copytree(tmp_path / "in", tmp_path / "once" / "in")
    once = list(batches_of(reader_of(tmp_path / "once"), limit=ReadMaxFiles(1)))
    found: dict[int, list[Row]] = {}

    def take(rows: DataFrame, number: int) -> None:
        if number == 1:
            rows.take(1)
        elif number > 1:
            found[number] = rows.toArrow().to_pylist()

    stream = spark.readStream.format("kafka_capture").option("state", str(tmp_path / "state"))
    rows = stream.option("maxFilesPerTrigger", "1").load(str(tmp_path / "in"))
    sink = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    sink.trigger(availableNow=True).start().awaitTermination()

    assert {number: comparable(rows) for number, rows in found.items()} == {
        number: comparable(once[number]) for number in (2, 3)
    }
