"""Planning of tasks: the rows of split and joined files are those of the whole."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

import kwire
from kwire.capture import index
from kwire.capture.options import Options
from kwire.capture.reader import collect_topic_names
from kwire.capture.rows.columns import LEVELS
from kwire.capture.tls.key_log import read_key_logs
from kwire.spark.indexing import index_folder
from tests.support.captures.rotated_captures import pieces
from tests.support.spark.capture_readers import FILE_COLUMNS, Row, comparable, open_reader, read_tasks

pytestmark = pytest.mark.slow

CAPTURES = Path(__file__).parents[3] / "captures"
FILES = sorted(CAPTURES.glob("*.pcap"))
SHARE = CAPTURES / "small_share.pcap"


def library_rows(file: Path, level: str = "messages", **given: str) -> list[Row]:
    """The rows of the library, with the topic names of the whole capture."""
    names = collect_topic_names([str(file)], Options(tls_keylog=read_key_logs([given["tls_keylog"]]) if given else ""))
    rows: list[Row] = kwire.read_capture(file, level, topics=names, **given).to_pylist()  # type: ignore[arg-type]
    return rows


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_split_file_gives_the_rows_of_the_whole(tmp_path: Path, file: Path, level: str) -> None:
    given = {"tls_keylog": str(file.with_suffix(".keys"))} if file.with_suffix(".keys").exists() else {}
    flows = index.open_index(file).flows
    reader = open_reader(file, level=level, task_bytes=str(file.stat().st_size // 2), index=str(tmp_path), **given)

    tasks = reader.partitions()
    found = read_tasks(reader, tasks)

    assert len(tasks) >= min(2, len(flows))
    assert comparable(found) == comparable(library_rows(file, level, **given))


@pytest.mark.parametrize("level", LEVELS)
def test_a_large_connection_is_split_between_requests(tmp_path: Path, level: str) -> None:
    file = CAPTURES / "small_ck.pcap"
    reader = open_reader(file, level=level, task_bytes="6000", index=str(tmp_path))

    tasks = reader.partitions()
    found = read_tasks(reader, tasks)

    cut = [task for task in tasks if task.packets is not None]
    assert bool(cut) is (level not in ("flows", "packets"))
    assert comparable(found) == comparable(library_rows(file, level))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("given", [{"task_bytes": "20000"}, {"index": "none", "task_bytes": "20000"}, {}], ids=str)
def test_files_of_a_series_give_the_rows_of_the_whole(tmp_path: Path, level: str, given: dict[str, str]) -> None:
    files = pieces(SHARE, tmp_path / "in", 5)
    options = {"index": str(tmp_path / "index"), **given}
    reader = open_reader(*reversed(files), level=level, across_files="true", **options)

    found = read_tasks(reader, reader.partitions())

    assert comparable(found, FILE_COLUMNS) == comparable(library_rows(SHARE, level), FILE_COLUMNS)
    assert {row["file"] for row in found} <= set(map(str, files))


def test_a_row_names_the_file_in_which_it_begins(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 3)
    reader = open_reader(*files, across_files="true", index="none", level="packets")

    found = read_tasks(reader, reader.partitions())

    for file in files:
        own = [row for row in kwire.read_capture(file, "packets").to_pylist() if row["ts"]]
        assert sum(row["file"] == str(file) for row in found) == len(own)


def test_small_files_share_a_task_and_are_read_separately(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 3)
    reader = open_reader(*files, names="file")

    (task,) = reader.partitions()

    apart = [row for file in files for row in kwire.read_capture(file).to_pylist()]
    assert task.files == list(map(str, files))
    assert comparable(read_tasks(reader, [task])) == comparable(apart)


def test_tasks_cost_about_the_same(tmp_path: Path) -> None:
    reader = open_reader(CAPTURES / "small_ck.pcap", task_bytes="40000", index=str(tmp_path), level="flows")
    costs = {flow.key: flow.cost for flow in index.open_index(reader.files[0]).flows}

    tasks = reader.partitions()

    loads = [sum(costs[key] for key in task.flows or ()) for task in tasks if task.packets is None]
    assert len(tasks) > 1
    assert sum(loads) == sum(costs.values())
    assert max(loads) - min(loads) <= max(costs.values())
    assert [task.emits_issues for task in tasks].count(True) == 1


def test_compressed_files_are_read_whole(tmp_path: Path) -> None:
    packed = tmp_path / "packed.pcap.gz"
    packed.write_bytes(gzip.compress(SHARE.read_bytes()))

    alone = open_reader(packed, task_bytes="1", index=str(tmp_path / "index"))
    joined = open_reader(packed, across_files="true", task_bytes="1000", index=str(tmp_path / "index"))

    whole = comparable(library_rows(SHARE), {"file"})
    assert comparable(read_tasks(alone, alone.partitions()), {"file"}) == whole
    assert len(joined.partitions()) > 1
    assert comparable(read_tasks(joined, joined.partitions()), {"file"}) == whole


def test_an_invalid_sidecar_is_rebuilt(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(SHARE.read_bytes())
    reader = open_reader(file, task_bytes="1", index="beside")
    tasks = reader.partitions()
    (sidecar,) = tmp_path.glob("*.kwire-index")
    sidecar.write_bytes(b"nonsense")

    found = read_tasks(reader, tasks)

    assert comparable(found) == comparable(library_rows(file))


def test_small_files_leave_no_sidecars(tmp_path: Path) -> None:
    reader = open_reader(SHARE, index=str(tmp_path))

    read_tasks(reader, reader.partitions())

    assert list(tmp_path.iterdir()) == []


def test_the_index_folder_retains_the_most_recently_used(tmp_path: Path) -> None:
    for number in range(4):
        file = tmp_path / f"{number}.kwire-index"
        file.write_bytes(bytes(100))
        os.utime(file, (number, number))
    (tmp_path / "other").write_bytes(bytes(1000))
    # One is being written, another one is left by a killed run.
    (tmp_path / ".now.part.kwire-index").write_bytes(bytes(1000))
    (tmp_path / ".left.part.kwire-index").write_bytes(bytes(1000))
    os.utime(tmp_path / ".left.part.kwire-index", (9, 9))

    index_folder.trim_folder(tmp_path, 250)

    left = sorted(file.name for file in tmp_path.iterdir())
    assert left == [".now.part.kwire-index", "2.kwire-index", "3.kwire-index", "other"]
