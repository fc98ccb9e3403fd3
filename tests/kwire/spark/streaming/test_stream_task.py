"""Changes of a stream's files, state and driver: each row is emitted once, or a clear error is raised."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxFiles

import kwire
from kwire.capture.options import Options
from kwire.capture.series.checkpoint import dump_checkpoint, load_checkpoint
from kwire.capture.tls.key_log import KeyLog
from kwire.spark.streaming import stream_state
from kwire.spark.streaming.stream_state import Batch, InvalidStreamState, StreamState, read_checkpoint_file
from tests.support.captures.capture_files import SHARE
from tests.support.captures.rotated_captures import pieces, records_of
from tests.support.spark.capture_readers import Row
from tests.support.spark.stream_program import stream_folder
from tests.support.spark.stream_readers import ALL, LEFT_OPEN, comparable_rows, open_stream, read_batch, read_batches

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]


def file_issue_kinds(rows: list[Row]) -> list[str]:
    return [issue["kind"] for row in rows for issue in row["issues"] or () if issue["kind"].startswith("file_")]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_that_grows_before_it_is_read_is_read_up_to_its_planned_size(tmp_path: Path, suffix: str) -> None:
    first, second = pieces(SHARE, tmp_path / "in", 2)
    once = [row for rows in read_batches(open_stream(tmp_path)) for row in rows]
    shutil.rmtree(tmp_path / "state")
    if suffix:
        for file in (first, second):
            Path(f"{file}{suffix}").write_bytes(gzip.compress(file.read_bytes()))
            os.utime(f"{file}{suffix}", (1, 1))
            file.unlink()
    grown = Path(f"{second}{suffix}")
    reader = open_stream(tmp_path)
    planned = reader.latestOffset({"batch": 0}, ALL)
    more = records_of(SHARE)[1][0] * 3
    grown.write_bytes(grown.read_bytes() + (gzip.compress(more) if suffix else more))
    os.utime(grown, (1, 1))

    rows = read_batch(reader, {"batch": 0}, planned)
    (after,) = read_batches(reader, start=1)

    assert comparable_rows(rows) == comparable_rows(once)
    assert file_issue_kinds(after) == ["file_grew"]


def test_a_replaced_file_is_reported_and_the_replacement_is_read_once(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 3)
    shutil.move(files[2], tmp_path / "next")
    reader = open_stream(tmp_path, stream_tasks="1")
    planned = reader.latestOffset({"batch": 0}, ALL)
    shutil.move(tmp_path / "next", files[1])

    rows = read_batch(reader, {"batch": 0}, planned)
    (after,) = read_batches(reader, start=1)

    assert file_issue_kinds(rows) == ["file_gone"]
    assert "another capture got its name before" in str(rows)
    assert {row["file"] for row in rows if row["status"] == "ok"} == {str(files[0])}
    assert after
    assert file_issue_kinds(after) == []


@pytest.mark.parametrize("packed", [None, gzip.compress], ids=["renamed", "packed"])
@pytest.mark.parametrize("kept_count_max", [0, 128])
def test_a_file_renamed_after_it_was_read_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: Any, kept_count_max: int
) -> None:
    monkeypatch.setattr("kwire.spark.streaming.stream_state._BATCH_LISTS_MAX", kept_count_max)
    files = pieces(SHARE, tmp_path / "in", 6)
    for file in files[3:]:
        shutil.move(file, tmp_path / file.name)
    reader = open_stream(tmp_path)
    batches = list(read_batches(reader, limit=ReadMaxFiles(1)))
    for file in files[:3]:
        other = Path(f"{file}.gz") if packed else file.with_name(f"archived-{file.name}")
        other.write_bytes(packed(file.read_bytes()) if packed else file.read_bytes())
        os.utime(other, (1, 1))
        file.unlink()

    assert list(read_batches(open_stream(tmp_path), start=3)) == []
    for file in files[3:]:
        shutil.move(tmp_path / file.name, file)
    batches += read_batches(open_stream(tmp_path), start=3, limit=ReadMaxFiles(1))

    whole = comparable_rows(kwire.read_capture(SHARE).to_pylist())
    rows = comparable_rows([row for rows in batches for row in rows])
    assert set(rows) <= set(whole)
    assert len(rows) == len(whole) - LEFT_OPEN["messages"]
    assert list(read_batches(open_stream(tmp_path), start=6)) == []


def test_files_with_one_name_in_two_folders_are_read_in_order(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "parts", 4)
    for number, folder in enumerate(("b", "a", "b", "a")):
        place = tmp_path / "in" / folder / f"trace{number // 2}.pcap"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(files[number], place)

    reader = open_stream(tmp_path, path=str(tmp_path / "in" / "*" / "*.pcap"))
    streamed = [row for rows in read_batches(reader, limit=ReadMaxFiles(1)) for row in rows]

    whole = comparable_rows(kwire.read_capture(SHARE).to_pylist())
    assert file_issue_kinds(streamed) == []
    assert set(comparable_rows(streamed)) <= set(whole)
    assert len(streamed) == len(whole) - LEFT_OPEN["messages"]


def test_a_checkpoint_of_another_source_is_an_error(tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 1)

    with pytest.raises(InvalidStreamState, match=r"offset \{'logOffset': 3\}, which this source did not write"):
        open_stream(tmp_path).latestOffset({"logOffset": 3}, ALL)


def test_a_new_checkpoint_with_an_old_state_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.spark.streaming.stream_state._BATCH_LISTS_MAX", 0)
    pieces(SHARE, tmp_path / "in", 5)
    list(read_batches(open_stream(tmp_path), limit=ReadMaxFiles(1)))

    message = r"no longer has batches before \d, and the checkpoint needs 1: .*both"
    with pytest.raises(InvalidStreamState, match=message):
        open_stream(tmp_path).latestOffset({"batch": 0}, ALL)


def test_a_state_of_another_version_is_an_error(tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 2)
    reader = open_stream(tmp_path, stream_tasks="1")
    list(read_batches(reader, limit=ReadMaxFiles(1)))
    state = str(tmp_path / "state")
    shapes, _, rest = read_checkpoint_file(state, 1, 0).partition(b"\n")
    changed = json.loads(shapes)
    changed["kwire.capture.index.stream_index.StreamIndex"] += ["one_more"]
    stream_state.write_checkpoint_file(state, 1, 0, json.dumps(changed).encode() + b"\n" + rest)

    message = r"another version of kwire \(StreamIndex has changed\); use another"
    with pytest.raises(InvalidStreamState, match=message):
        read_batch(reader, {"batch": 1}, {"batch": 2})
    header = tmp_path / "state" / "header.json"
    header.write_text(header.read_text().replace('"version": 3', '"version": 2'))
    with pytest.raises(InvalidStreamState, match="use another state folder"):
        open_stream(tmp_path, stream_tasks="1").latestOffset({"batch": 2}, ALL)


def test_a_checkpoint_is_read_back_by_the_same_version(tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 2)
    list(read_batches(open_stream(tmp_path, stream_tasks="1"), limit=ReadMaxFiles(1)))
    written = read_checkpoint_file(str(tmp_path / "state"), 1, 0)

    again = dump_checkpoint(load_checkpoint(written, Options(), KeyLog("")))

    assert again.partition(b"\n")[0] == written.partition(b"\n")[0]


def test_the_first_plan_of_a_batch_is_used(tmp_path: Path) -> None:
    state = StreamState(str(tmp_path), level="messages", tasks=1)
    state.save_batch(Batch(1, [], [], 7, []))
    state.save_batch(Batch(1, [], [], 8, []))

    assert state.load_batch(1).newest_ts == 7
    assert [file.name for file in (tmp_path / "batches").iterdir()] == ["1.json"]


@pytest.mark.spark
@pytest.mark.timeout(400)
@pytest.mark.parametrize("moment", ["reading", "written"])
def test_after_a_killed_driver_each_row_is_written_once(spark: SparkSession, tmp_path: Path, moment: str) -> None:
    pieces(SHARE, tmp_path / "in", 4)
    undisturbed = open_stream(tmp_path / "once", path=str(tmp_path / "in"))
    once = [row for rows in read_batches(undisturbed) for row in rows]

    exit_code = run_stream_program(tmp_path, moment)
    stream_folder(spark, tmp_path)

    assert exit_code == -signal.SIGKILL
    written = spark.read.parquet(*map(str, (tmp_path / "out").iterdir())).toArrow().to_pylist()
    assert comparable_rows(written) == comparable_rows(once)


def run_stream_program(folder: Path, moment: str) -> int:
    """Stream the folder in a process of its own, which kills itself in the second batch; returns the exit code."""
    command = [sys.executable, "-m", "tests.support.spark.stream_program", str(folder), moment]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    return subprocess.run(command, capture_output=True, timeout=300, cwd=ROOT, env=environ, check=False).returncode
