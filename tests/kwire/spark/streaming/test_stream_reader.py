"""A folder of rotated captures as a stream: each row once, connections across files, clean restarts.

All but two tests drive the reader as Spark does, without a JVM.
"""

from __future__ import annotations

import gzip
import os
import shutil
from itertools import chain
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, ReadMaxFiles

import kwire
from kwire.capture.rows.columns import LEVELS
from kwire.spark.streaming.stream_reader import CaptureStreamReader
from kwire.spark.streaming.stream_state import InvalidStreamState, read_checkpoint_file
from tests.support.captures.capture_files import SHARE
from tests.support.captures.rotated_captures import pieces, records_of
from tests.support.spark.capture_readers import Row
from tests.support.spark.stream_readers import ALL, LEFT_OPEN, comparable_rows, open_stream, read_batch, read_batches

pytestmark = pytest.mark.slow


def split_capture(packet: int, folder: Path) -> None:
    """Write the capture as two files; the second one begins after this packet."""
    head, records = records_of(SHARE)
    folder.mkdir()
    for name, part in (("1.pcap", records[:packet]), ("2.pcap", records[packet:])):
        (folder / name).write_bytes(head + b"".join(part))
        os.utime(folder / name, (1, 1))


def find_slow_exchange() -> Row:
    """An exchange whose response follows its request after several packets."""
    rows: list[Row] = kwire.read_capture(SHARE).to_pylist()
    return next(row for row in rows if row["status"] == "ok" and row["resp_packet"] > row["req_packet"] + 2)


@pytest.mark.parametrize("level", LEVELS)
def test_single_files_give_the_rows_of_the_whole_capture(tmp_path: Path, level: str) -> None:
    pieces(SHARE, tmp_path / "in", 6)
    reader = open_stream(tmp_path, level=level)

    batches = list(read_batches(reader, limit=ReadMaxFiles(1)))

    whole = comparable_rows(kwire.read_capture(SHARE, level).to_pylist())
    streamed = comparable_rows([row for rows in batches for row in rows])
    assert len(batches) == 6
    assert set(streamed) <= set(whole)
    # Rows that are open at the end of the capture stay in the state.
    assert len(whole) - len(streamed) <= LEFT_OPEN.get(level, 0)


def test_a_request_is_paired_with_its_response_in_the_next_file(tmp_path: Path) -> None:
    row = find_slow_exchange()
    split_capture(row["req_packet"], tmp_path / "in")

    first, second = read_batches(open_stream(tmp_path), limit=ReadMaxFiles(1))

    key = row["conn_id"], row["correlation_id"]
    assert key not in [(other["conn_id"], other["correlation_id"]) for other in first]
    completed = next(other for other in second if (other["conn_id"], other["correlation_id"]) == key)
    assert comparable_rows([completed]) == comparable_rows([row])
    assert completed["file"] == str(tmp_path / "in" / "1.pcap")


@pytest.mark.parametrize("task_count", ["1", "3"])
def test_a_batch_that_runs_again_gives_the_same_rows(tmp_path: Path, task_count: str) -> None:
    pieces(SHARE, tmp_path / "in", 3)
    reader = open_stream(tmp_path, stream_tasks=task_count)
    once = list(read_batches(reader, limit=ReadMaxFiles(1)))

    again = read_batch(open_stream(tmp_path, stream_tasks=task_count), {"batch": 2}, {"batch": 3})

    assert again == once[2] != []


def read_partly(reader: CaptureStreamReader, start: int, end: int, tasks: int) -> None:
    """A sink that runs only the first tasks of a batch, and reads only their first rows."""
    for task in reader.partitions({"batch": start}, {"batch": end})[:tasks]:
        next(iter(reader.read(task)), None)


@pytest.mark.parametrize("task_count", [0, 1, 3])
@pytest.mark.parametrize("skipped", [{1}, {2}, {1, 2, 3}, {2, 4}])
def test_batches_that_a_sink_reads_partly_lose_no_rows_of_the_next(
    tmp_path: Path, skipped: set[int], task_count: int
) -> None:
    pieces(SHARE, tmp_path / "in", 6)
    shutil.copytree(tmp_path / "in", tmp_path / "once" / "in")
    once = list(read_batches(open_stream(tmp_path / "once", stream_tasks="3"), limit=ReadMaxFiles(1)))
    reader = open_stream(tmp_path, stream_tasks="3")

    for number in range(1, 7):
        start, end = {"batch": number - 1}, reader.latestOffset({"batch": number - 1}, ReadMaxFiles(1))
        if number in skipped:
            read_partly(reader, number - 1, number, task_count)
        else:
            assert comparable_rows(read_batch(reader, start, end)) == comparable_rows(once[number - 1])
        reader.commit(end)


def test_lists_and_checkpoints_are_retained_until_a_sink_reads_whole_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.spark.streaming.stream_state._BATCH_LISTS_MAX", 0)
    pieces(SHARE, tmp_path / "in", 12)
    reader = open_stream(tmp_path, stream_tasks="2")
    for number in range(1, 9):
        end = reader.latestOffset({"batch": number - 1}, ReadMaxFiles(1))
        read_batch(reader, {"batch": number - 1}, end) if number < 3 else read_partly(reader, number - 1, number, 1)
        reader.commit(end)
    kept = {file.name for file in (tmp_path / "state" / "batches").iterdir()}

    rest = list(read_batches(reader, start=8, limit=ReadMaxFiles(1)))

    assert kept >= {f"{number}.json" for number in range(3, 9)}
    assert len(rest) == 4
    assert {folder.name for folder in (tmp_path / "state" / "checkpoints").iterdir()} == {"11", "12"}
    assert len(list((tmp_path / "state" / "batches").iterdir())) <= 3


def test_a_restart_reads_the_batch_that_was_planned_before(tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 4)
    reader = open_stream(tmp_path)
    planned = reader.latestOffset({"batch": 0}, ReadMaxFiles(2))

    again = open_stream(tmp_path)

    assert again.latestOffset({"batch": 0}, ALL) == planned
    assert [len(batch.files) for task in again.partitions({"batch": 0}, planned)[:1] for batch in task.batches] == [2]


def test_a_late_file_is_read_alone_and_reported(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 3)
    shutil.move(files[0], tmp_path / "late")
    reader = open_stream(tmp_path)
    before = [row for rows in read_batches(reader) for row in rows]
    shutil.move(tmp_path / "late", files[0])

    (after,) = read_batches(reader, start=1)

    alone = kwire.read_capture(files[0]).to_pylist()
    issue_rows = [row for row in after if row["status"] == "undecodable" and "file_late" in str(row["issues"])]
    assert before
    assert len(issue_rows) == 1
    assert comparable_rows([row for row in after if row not in issue_rows]) == comparable_rows(alone)


@pytest.mark.parametrize("content", [records_of(SHARE)[0], b"no capture at all"], ids=["empty", "broken"])
@pytest.mark.parametrize("limit", [ReadMaxFiles(1), ALL], ids=["one", "all"])
def test_a_file_without_packets_makes_no_other_late(tmp_path: Path, content: bytes, limit: ReadLimit) -> None:
    files = pieces(SHARE, tmp_path / "in", 2)
    shutil.move(files[1], tmp_path / "later")
    (tmp_path / "in" / "changed-now.pcap").write_bytes(content)
    reader = open_stream(tmp_path, closed_after="0")
    before = list(read_batches(reader, limit=limit))
    shutil.move(tmp_path / "later", files[1])

    (after,) = read_batches(reader, start=len(before))

    rows = [row for row in (*chain(*before), *after) if "file_unreadable" not in str(row["issues"])]
    assert len(rows) == len(kwire.read_capture(SHARE)) - LEFT_OPEN["messages"]
    assert set(comparable_rows(rows)) <= set(comparable_rows(kwire.read_capture(SHARE).to_pylist()))


def test_a_file_without_packets_is_never_late_and_read_once(tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 1)
    reader = open_stream(tmp_path)
    list(read_batches(reader))
    (tmp_path / "in" / "empty.pcap").write_bytes(records_of(SHARE)[0])
    os.utime(tmp_path / "in" / "empty.pcap", (1, 1))

    assert list(read_batches(reader, start=1)) == [[]]
    assert list(read_batches(reader, start=2)) == []


def test_a_file_is_late_even_if_the_newer_ones_were_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.spark.streaming.stream_state._BATCH_LISTS_MAX", 0)
    files = pieces(SHARE, tmp_path / "in", 4)
    shutil.move(files[0], tmp_path / "late")
    reader = open_stream(tmp_path)
    assert len(list(read_batches(reader))) == 1
    for file in files[1:]:
        file.unlink()
    for start in (1, 2, 3):
        (tmp_path / "in" / f"{start}.pcap").write_bytes(records_of(SHARE)[0])
        os.utime(tmp_path / "in" / f"{start}.pcap", (1, 1))
        list(read_batches(reader, start=start))
    shutil.move(tmp_path / "late", files[0])

    (after,) = read_batches(reader, start=4)

    assert "file_late" in str(after)


def test_a_file_that_grows_after_it_was_read_is_reported(tmp_path: Path) -> None:
    (file,) = pieces(SHARE, tmp_path / "in", 1)
    reader = open_stream(tmp_path)
    list(read_batches(reader))
    file.write_bytes(file.read_bytes() + b"more")
    os.utime(file, (1, 1))

    (issue_rows,) = read_batches(reader, start=1)

    assert [(row["file"], "file_grew" in str(row["issues"])) for row in issue_rows] == [(str(file), True)]
    assert list(read_batches(reader, start=2)) == []


def test_a_file_that_is_no_capture_gives_a_row_and_the_stream_continues(tmp_path: Path) -> None:
    (file,) = pieces(SHARE, tmp_path / "in", 1)
    (file.parent / "other.pcap").write_bytes(b"no capture at all")
    os.utime(file.parent / "other.pcap", (2, 2))

    (rows,) = read_batches(open_stream(tmp_path))

    assert sum("file_unreadable" in str(row["issues"]) for row in rows) == 1
    assert sum(row["status"] == "ok" for row in rows) > 30


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_removed_between_plan_and_read_gives_a_row_and_the_stream_continues(tmp_path: Path, suffix: str) -> None:
    files = pieces(SHARE, tmp_path / "in", 2)
    gone = files[0].rename(f"{files[0]}{suffix}")
    reader = open_stream(tmp_path, stream_tasks="2")
    planned = reader.latestOffset({"batch": 0}, ALL)
    gone.unlink()

    rows = read_batch(reader, {"batch": 0}, planned)

    issue_rows = [(row["file"], row["issues"][0]["detail"]) for row in rows if "file_gone" in str(row["issues"])]
    causes = [f"it was removed before the connections of task {task} of 2 were read" for task in (1, 2)]
    assert issue_rows == [(str(gone), cause) for cause in causes]
    assert len(rows) > len(issue_rows)


def test_a_file_removed_after_the_first_task_is_reported_by_the_others(tmp_path: Path) -> None:
    (file,) = pieces(SHARE, tmp_path / "in", 1)
    reader = open_stream(tmp_path, stream_tasks="2")
    first, second = reader.partitions({"batch": 0}, reader.latestOffset({"batch": 0}, ALL))
    before = [row for batch in reader.read(first) for row in batch.to_pylist()]
    file.unlink()

    after = [row for batch in reader.read(second) for row in batch.to_pylist()]

    assert "file_gone" not in str(before)
    assert [row["issues"][0]["kind"] for row in after] == ["file_gone"]


def test_compressed_files_are_streamed_too(tmp_path: Path) -> None:
    for file in pieces(SHARE, tmp_path / "in", 3):
        packed = file.with_name(file.name + ".gz")
        packed.write_bytes(gzip.compress(file.read_bytes()))
        os.utime(packed, (1, 1))
        file.unlink()

    streamed = [row for rows in read_batches(open_stream(tmp_path), limit=ReadMaxFiles(1)) for row in rows]

    assert set(comparable_rows(streamed)) <= set(comparable_rows(kwire.read_capture(SHARE).to_pylist()))
    assert len(kwire.read_capture(SHARE)) - len(streamed) <= LEFT_OPEN["messages"]


def test_files_that_are_still_written_are_read_later(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 2)
    os.utime(files[1])

    reader = open_stream(tmp_path, closed_after="3600")
    list(read_batches(reader))

    assert [file.path for file in reader.state.files_read_until(1)] == [str(files[0])]


def test_a_reused_name_of_a_ring_is_a_new_file(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 3)
    shutil.move(files[2], tmp_path / "next")
    reader = open_stream(tmp_path)
    (first,) = read_batches(reader)
    shutil.move(tmp_path / "next", files[0])

    (second,) = read_batches(reader, start=1)

    assert first
    assert {row["status"] for row in second} == {"ok"}


@pytest.mark.parametrize(
    ("given", "limit"),
    [({"maxfilespertrigger": "2"}, ReadMaxFiles(2)), ({"maxbytespertrigger": "100"}, ReadMaxBytes(100)), ({}, ALL)],
)
def test_the_limit_is_the_one_of_the_option(tmp_path: Path, given: dict[str, str], limit: ReadLimit) -> None:
    assert open_stream(tmp_path, **given).getDefaultReadLimit() == limit


def test_a_limit_in_bytes_reads_whole_files_and_at_least_one(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 4)
    size = files[0].stat().st_size + files[1].stat().st_size
    small, large = open_stream(tmp_path), open_stream(tmp_path)

    small.latestOffset({"batch": 0}, ReadMaxBytes(1))
    large.latestOffset({"batch": 1}, ReadMaxBytes(size))

    assert len(small.state.load_batch(1).files) == 1
    assert len(large.state.load_batch(2).files) >= 1


def test_available_now_ignores_later_files(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 3)
    shutil.move(files[2], tmp_path / "later")
    reader = open_stream(tmp_path)
    reader.prepareForTriggerAvailableNow()
    shutil.move(tmp_path / "later", files[2])

    batches = list(read_batches(reader, limit=ReadMaxFiles(1)))

    assert len(batches) == 2


def test_requests_without_a_response_are_emitted_after_the_timeout(tmp_path: Path) -> None:
    row = find_slow_exchange()
    split_capture(row["resp_packet"] - 1, tmp_path / "in")

    first, _ = read_batches(open_stream(tmp_path, state_timeout="0"), limit=ReadMaxFiles(1))

    given_up = [other for other in first if other["correlation_id"] == row["correlation_id"]]
    assert [other["status"] for other in given_up if other["conn_id"] == row["conn_id"]] == ["no_response"]


def test_state_does_not_grow_with_the_number_of_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.spark.streaming.stream_state._BATCH_LISTS_MAX", 3)
    pieces(SHARE, tmp_path / "in", 12)
    reader = open_stream(tmp_path, stream_tasks="1")

    batches = list(read_batches(reader, limit=ReadMaxFiles(1)))

    assert len(batches) == 12
    assert len(list((tmp_path / "state" / "checkpoints").iterdir())) <= 3
    assert len(list((tmp_path / "state" / "batches").iterdir())) <= 6
    assert len(list(reader.state.files_read_until(12))) == 12


@pytest.mark.parametrize("given", [{"level": "records"}, {"stream_tasks": "9"}])
def test_a_state_of_another_query_is_refused(tmp_path: Path, given: dict[str, str]) -> None:
    pieces(SHARE, tmp_path / "in", 1)
    list(read_batches(open_stream(tmp_path)))

    with pytest.raises(InvalidStreamState, match="use another state folder"):
        list(read_batches(open_stream(tmp_path, **given)))


def test_a_damaged_or_foreign_state_is_refused(tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 2)
    reader = open_stream(tmp_path)
    _, second = read_batches(reader, limit=ReadMaxFiles(1))
    place = tmp_path / "state" / "checkpoints" / "1" / "0"

    place.write_bytes(place.read_bytes()[:-1] + b"x")
    with pytest.raises(InvalidStreamState, match="is damaged"):
        read_batch(reader, {"batch": 1}, {"batch": 2})
    place.unlink()
    assert read_batch(reader, {"batch": 1}, {"batch": 2}) == second
    place.unlink()
    (tmp_path / "state" / "batches" / "1.json").unlink()
    with pytest.raises(InvalidStreamState, match="has no batch 1"):
        read_batch(reader, {"batch": 1}, {"batch": 2})
    with pytest.raises(InvalidStreamState, match="is missing"):
        read_checkpoint_file(str(tmp_path / "state"), 1, 0)
    with pytest.raises(InvalidStreamState, match="belong to different queries"):
        reader.partitions({"batch": 7}, {"batch": 8})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"state": ""}, "readStream needs option state"),
        ({"maxfilespertrigger": "0"}, "expected a number above 0"),
        (
            {"maxfilespertrigger": "1", "maxbytespertrigger": "1"},
            "only one of maxFilesPerTrigger and maxBytesPerTrigger",
        ),
        ({"closed_after": "-1"}, "0 or more"),
        ({"colour": "red"}, "no option colour"),
    ],
)
def test_an_invalid_option_of_a_stream_is_an_error(tmp_path: Path, given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_stream(tmp_path, **given)


@pytest.mark.spark
def test_spark_streams_a_folder_and_continues_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 4)
    shutil.move(files[3], tmp_path / "later")

    def run() -> int:
        options = {"state": str(tmp_path / "state"), "stream_tasks": "2", "maxFilesPerTrigger": "2"}
        rows = spark.readStream.format("kafka_capture").options(**options).load(str(tmp_path / "in"))
        sink = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.trigger(availableNow=True).start(str(tmp_path / "out"))
        query.awaitTermination()
        return sum(progress["numInputRows"] > 0 for progress in query.recentProgress)

    first = run()
    shutil.move(tmp_path / "later", files[3])
    second = run()
    third = run()

    assert (first, second, third) == (2, 1, 0)
    written = comparable_rows(spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist())
    assert set(written) <= set(comparable_rows(kwire.read_capture(SHARE).to_pylist()))
    assert len(written) == len(kwire.read_capture(SHARE)) - LEFT_OPEN["messages"]


@pytest.mark.spark
def test_spark_continues_after_batches_that_a_function_read_partly(spark: SparkSession, tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 4)
    shutil.copytree(tmp_path / "in", tmp_path / "once" / "in")
    once = list(read_batches(open_stream(tmp_path / "once"), limit=ReadMaxFiles(1)))
    rows_of_batches: dict[int, list[Row]] = {}

    def take(rows: DataFrame, number: int) -> None:
        if number == 1:
            rows.take(1)
        elif number > 1:
            rows_of_batches[number] = rows.toArrow().to_pylist()

    stream = spark.readStream.format("kafka_capture").option("state", str(tmp_path / "state"))
    rows = stream.option("maxFilesPerTrigger", "1").load(str(tmp_path / "in"))
    sink = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    sink.trigger(availableNow=True).start().awaitTermination()

    assert sorted(rows_of_batches) == [2, 3]
    assert all(comparable_rows(rows) == comparable_rows(once[number]) for number, rows in rows_of_batches.items())
