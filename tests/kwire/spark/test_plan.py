"""Captures become tasks: whatever is taken apart, or put together, the rows are those of the whole."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import kwire
from kwire.capture import index
from kwire.capture.keylog import read_key_logs
from kwire.capture.options import Options
from kwire.capture.schemas import LEVELS
from kwire.capture.topic_map import names_in
from kwire.spark import indexing
from kwire.spark.plan import Task
from kwire.spark.source import CaptureDataSource, CaptureReader
from tests.kwire.spark.pieces import pieces

CAPTURES = Path(__file__).parents[2] / "captures"
FILES = sorted(CAPTURES.glob("*.pcap"))
SHARE = CAPTURES / "small_share.pcap"
# Packets are counted by file, so a row of a series has other numbers than that of the whole.
PLACES = {"file", "req_packet", "resp_packet", "number", "first_packet", "last_packet"}


def reader_of(*names: Path, **given: str) -> CaptureReader:
    source = CaptureDataSource({"paths": "[" + ",".join(f'"{name}"' for name in names) + "]", **given})
    reader = source.reader(source.schema())
    assert isinstance(reader, CaptureReader)
    return reader


def rows_by_hand(file: Path, level: str = "messages", **given: str) -> list[dict[str, Any]]:
    """The rows of the plain library, which knows the names of topics beforehand."""
    names = names_in([str(file)], Options(tls_keylog=read_key_logs([given["tls_keylog"]]) if given else ""))
    rows: list[dict[str, Any]] = kwire.read_capture(file, level, topics=names, **given).to_pylist()  # type: ignore[arg-type]
    return rows


def rows_of(reader: CaptureReader, tasks: list[Task]) -> list[dict[str, Any]]:
    """The rows of all tasks, each in a process of its own as far as it can tell."""
    found = []
    for task in tasks:
        for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(task))):
            found += batch.to_pylist()
    return found


def comparable(rows: list[dict[str, Any]], without: set[str] = frozenset()) -> list[str]:  # type: ignore[assignment]
    return sorted(str({name: value for name, value in row.items() if name not in without}) for row in rows)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_taken_apart_gives_the_rows_of_the_whole(tmp_path: Path, file: Path, level: str) -> None:
    given = {"tls_keylog": str(file.with_suffix(".keys"))} if file.with_suffix(".keys").exists() else {}
    flows = index.of(file).flows
    reader = reader_of(file, level=level, task_bytes=str(file.stat().st_size // 2), index=str(tmp_path), **given)

    tasks = reader.partitions()
    found = rows_of(reader, tasks)

    assert len(tasks) >= min(2, len(flows))
    assert comparable(found) == comparable(rows_by_hand(file, level, **given))


@pytest.mark.parametrize("level", LEVELS)
def test_a_large_connection_is_cut_between_requests(tmp_path: Path, level: str) -> None:
    file = CAPTURES / "small_ck.pcap"
    reader = reader_of(file, level=level, task_bytes="6000", index=str(tmp_path))

    tasks = reader.partitions()
    found = rows_of(reader, tasks)

    cut = [task for task in tasks if task.packets is not None]
    assert bool(cut) is (level not in ("flows", "packets"))
    assert comparable(found) == comparable(rows_by_hand(file, level))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("given", [{"task_bytes": "20000"}, {"index": "none", "task_bytes": "20000"}, {}], ids=str)
def test_files_of_a_series_give_the_rows_of_the_whole(tmp_path: Path, level: str, given: dict[str, str]) -> None:
    files = pieces(SHARE, tmp_path / "in", 5)
    reader = reader_of(
        *reversed(files), level=level, across_files="true", **{"index": str(tmp_path / "index"), **given}
    )

    found = rows_of(reader, reader.partitions())

    assert comparable(found, PLACES) == comparable(rows_by_hand(SHARE, level), PLACES)
    assert {row["file"] for row in found} <= set(map(str, files))


def test_a_row_names_the_file_in_which_it_begins(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 3)
    reader = reader_of(*files, across_files="true", index="none", level="packets")

    found = rows_of(reader, reader.partitions())

    for file in files:
        own = [row for row in kwire.read_capture(file, "packets").to_pylist() if row["ts"]]
        assert sum(row["file"] == str(file) for row in found) == len(own)


def test_small_files_share_a_task_and_stay_apart(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 3)
    reader = reader_of(*files, names="file")

    (task,) = reader.partitions()

    apart = [row for file in files for row in kwire.read_capture(file).to_pylist()]
    assert task.files == list(map(str, files))
    assert comparable(rows_of(reader, [task])) == comparable(apart)


def test_tasks_cost_about_the_same(tmp_path: Path) -> None:
    reader = reader_of(CAPTURES / "small_ck.pcap", task_bytes="40000", index=str(tmp_path), level="flows")
    costs = {flow.key: flow.cost for flow in index.of(reader.files[0]).flows}

    tasks = reader.partitions()

    loads = [sum(costs[key] for key in task.flows or ()) for task in tasks if task.packets is None]
    assert len(tasks) > 1
    assert sum(loads) == sum(costs.values())
    assert max(loads) - min(loads) <= max(costs.values())
    assert [task.tells_troubles for task in tasks].count(True) == 1


def test_packed_files_are_read_whole(tmp_path: Path) -> None:
    import gzip

    packed = tmp_path / "packed.pcap.gz"
    packed.write_bytes(gzip.compress(SHARE.read_bytes()))

    alone = reader_of(packed, task_bytes="1", index=str(tmp_path / "index"))
    joined = reader_of(packed, across_files="true", task_bytes="1000", index=str(tmp_path / "index"))

    whole = comparable(rows_by_hand(SHARE), {"file"})
    assert comparable(rows_of(alone, alone.partitions()), {"file"}) == whole
    assert len(joined.partitions()) > 1
    assert comparable(rows_of(joined, joined.partitions()), {"file"}) == whole


def test_a_sidecar_that_does_not_fit_is_made_anew(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(SHARE.read_bytes())
    reader = reader_of(file, task_bytes="1", index="beside")
    tasks = reader.partitions()
    (sidecar,) = tmp_path.glob("*.kwire-index")
    sidecar.write_bytes(b"nonsense")

    found = rows_of(reader, tasks)

    assert comparable(found) == comparable(rows_by_hand(file))


def test_small_files_leave_no_sidecars(tmp_path: Path) -> None:
    reader = reader_of(SHARE, index=str(tmp_path))

    rows_of(reader, reader.partitions())

    assert list(tmp_path.iterdir()) == []


def test_the_cache_keeps_what_was_used_last(tmp_path: Path) -> None:
    for number in range(4):
        file = tmp_path / f"{number}.kwire-index"
        file.write_bytes(bytes(100))
        os.utime(file, (number, number))
    (tmp_path / "other").write_bytes(bytes(1000))
    # One is being written, another was left by a run that was killed.
    (tmp_path / ".now.part.kwire-index").write_bytes(bytes(1000))
    (tmp_path / ".left.part.kwire-index").write_bytes(bytes(1000))
    os.utime(tmp_path / ".left.part.kwire-index", (9, 9))

    indexing.trim(tmp_path, 250)

    left = sorted(file.name for file in tmp_path.iterdir())
    assert left == [".now.part.kwire-index", "2.kwire-index", "3.kwire-index", "other"]
