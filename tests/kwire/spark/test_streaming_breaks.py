"""What may happen to a stream's files, state and driver: each row comes once, or the error says what is wrong."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxFiles

import kwire
from kwire.capture.carried import dump, load
from kwire.capture.keylog import KeyLog
from kwire.capture.options import Options
from kwire.spark.journal import Batch, Journal, StateError, load_carried, save_carried
from tests.kwire.spark.pieces import pieces, records_of
from tests.kwire.spark.test_streaming import ALL, LEFT_OPEN, SHARE, batch_of, batches_of, comparable, reader_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
Row = dict[str, Any]


def kinds(rows: list[Row]) -> list[str]:
    return [issue["kind"] for row in rows for issue in row["issues"] or () if issue["kind"].startswith("file_")]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_that_grows_before_it_is_read_is_read_as_far_as_it_was_planned(tmp_path: Path, suffix: str) -> None:
    first, second = pieces(SHARE, tmp_path / "in", 2)
    once = [row for rows in batches_of(reader_of(tmp_path)) for row in rows]
    shutil.rmtree(tmp_path / "state")
    if suffix:
        for file in (first, second):
            Path(f"{file}{suffix}").write_bytes(gzip.compress(file.read_bytes()))
            os.utime(f"{file}{suffix}", (1, 1))
            file.unlink()
    grown = Path(f"{second}{suffix}")
    reader = reader_of(tmp_path)
    planned = reader.latestOffset({"batch": 0}, ALL)
    more = records_of(SHARE)[1][0] * 3
    grown.write_bytes(grown.read_bytes() + (gzip.compress(more) if suffix else more))
    os.utime(grown, (1, 1))

    rows = batch_of(reader, {"batch": 0}, planned)
    (after,) = batches_of(reader, start=1)

    assert comparable(rows) == comparable(once)
    assert kinds(after) == ["file_grew"]


def test_a_name_that_gets_another_capture_before_it_is_read_is_told_and_the_other_is_read_once(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 3)
    shutil.move(files[2], tmp_path / "next")
    reader = reader_of(tmp_path, stream_tasks="1")
    planned = reader.latestOffset({"batch": 0}, ALL)
    shutil.move(tmp_path / "next", files[1])

    rows = batch_of(reader, {"batch": 0}, planned)
    (after,) = batches_of(reader, start=1)

    assert kinds(rows) == ["file_gone"]
    assert "another capture got its name before" in str(rows)
    assert {row["file"] for row in rows if row["status"] == "ok"} == {str(files[0])}
    assert after
    assert kinds(after) == []


@pytest.mark.parametrize("packed", [None, gzip.compress], ids=["renamed", "packed"])
@pytest.mark.parametrize("kept_count_max", [0, 128])
def test_a_file_that_gets_another_name_after_it_was_read_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: Any, kept_count_max: int
) -> None:
    monkeypatch.setattr("kwire.spark.journal._KEPT_COUNT_MAX", kept_count_max)
    files = pieces(SHARE, tmp_path / "in", 6)
    for file in files[3:]:
        shutil.move(file, tmp_path / file.name)
    reader = reader_of(tmp_path)
    found = list(batches_of(reader, limit=ReadMaxFiles(1)))
    for file in files[:3]:
        other = Path(f"{file}.gz") if packed else file.with_name(f"archived-{file.name}")
        other.write_bytes(packed(file.read_bytes()) if packed else file.read_bytes())
        os.utime(other, (1, 1))
        file.unlink()

    assert list(batches_of(reader_of(tmp_path), start=3)) == []
    for file in files[3:]:
        shutil.move(tmp_path / file.name, file)
    found += batches_of(reader_of(tmp_path), start=3, limit=ReadMaxFiles(1))

    whole = comparable(kwire.read_capture(SHARE).to_pylist())
    rows = comparable([row for rows in found for row in rows])
    assert set(rows) <= set(whole)
    assert len(rows) == len(whole) - LEFT_OPEN["messages"]
    assert list(batches_of(reader_of(tmp_path), start=6)) == []


def test_files_of_one_name_in_two_folders_are_two_and_come_in_order(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "parts", 4)
    for number, folder in enumerate(("b", "a", "b", "a")):
        place = tmp_path / "in" / folder / f"trace{number // 2}.pcap"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(files[number], place)

    reader = reader_of(tmp_path, path=str(tmp_path / "in" / "*" / "*.pcap"))
    found = [row for rows in batches_of(reader, limit=ReadMaxFiles(1)) for row in rows]

    whole = comparable(kwire.read_capture(SHARE).to_pylist())
    assert kinds(found) == []
    assert set(comparable(found)) <= set(whole)
    assert len(found) == len(whole) - LEFT_OPEN["messages"]


def test_a_checkpoint_of_another_source_is_an_error_that_shows_it(tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 1)

    with pytest.raises(StateError, match=r"offset \{'logOffset': 3\}, which is none of this source"):
        reader_of(tmp_path).latestOffset({"logOffset": 3}, ALL)


def test_a_checkpoint_that_begins_anew_beside_an_old_state_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.spark.journal._KEPT_COUNT_MAX", 0)
    pieces(SHARE, tmp_path / "in", 5)
    list(batches_of(reader_of(tmp_path), limit=ReadMaxFiles(1)))

    with pytest.raises(StateError, match=r"has forgotten batches before \d, and the checkpoint asks for 1: .*both"):
        reader_of(tmp_path).latestOffset({"batch": 0}, ALL)


def test_a_state_of_another_version_is_an_error(tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 2)
    reader = reader_of(tmp_path, stream_tasks="1")
    list(batches_of(reader, limit=ReadMaxFiles(1)))
    state = str(tmp_path / "state")
    shapes, _, rest = load_carried(state, 1, 0).partition(b"\n")
    changed = json.loads(shapes)
    changed["kwire.capture.talks.Talks"] = [*changed["kwire.capture.talks.Talks"], "one_more"]
    save_carried(state, 1, 0, json.dumps(changed).encode() + b"\n" + rest)

    with pytest.raises(StateError, match=r"another version of kwire \(Talks has changed\); begin with another"):
        batch_of(reader, {"batch": 1}, {"batch": 2})
    about = tmp_path / "state" / "about.json"
    about.write_text(about.read_text().replace('"version": 2', '"version": 1'))
    with pytest.raises(StateError, match="give it another state folder"):
        reader_of(tmp_path, stream_tasks="1").latestOffset({"batch": 2}, ALL)


def test_what_was_written_down_is_read_back_by_the_same_version(tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 2)
    list(batches_of(reader_of(tmp_path, stream_tasks="1"), limit=ReadMaxFiles(1)))
    written = load_carried(str(tmp_path / "state"), 1, 0)

    again = dump(load(written, Options(), KeyLog("")))

    assert again.partition(b"\n")[0] == written.partition(b"\n")[0]


def test_of_two_that_plan_the_same_batch_the_first_decides(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), level="messages", tasks=1)
    journal.plan(Batch(1, [], [], 7, []))
    journal.plan(Batch(1, [], [], 8, []))

    assert journal.required(1).newest_ts == 7
    assert [file.name for file in (tmp_path / "batches").iterdir()] == ["1.json"]


@pytest.mark.spark
@pytest.mark.timeout(400)
@pytest.mark.parametrize("moment", ["reading", "written"])
def test_a_driver_that_is_killed_in_a_batch_goes_on_with_each_row_once(
    spark: SparkSession, tmp_path: Path, moment: str
) -> None:
    pieces(SHARE, tmp_path / "in", 4)
    once = [row for rows in batches_of(reader_of(tmp_path / "once", path=str(tmp_path / "in"))) for row in rows]

    killed, ended = follow(tmp_path, moment), follow(tmp_path, "never")

    assert killed == -signal.SIGKILL
    assert ended == 0
    found = spark.read.parquet(*map(str, (tmp_path / "out").iterdir())).toArrow().to_pylist()
    assert comparable(found) == comparable(once)


def follow(folder: Path, moment: str) -> int:
    """Follow the folder in a process of its own, which kills itself in the second batch at this moment."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.kwire.spark.following", str(folder), moment],
        capture_output=True,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
        check=False,
    )
    return done.returncode
