"""Indexing by executors, by ranges and shards: it builds the same sidecars, and leaves nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kwire.spark
from kwire.capture import index
from kwire.capture.index.scan.scanner import SPAN_SIZE
from kwire.spark import paths
from tests.support.captures.capture_files import SHARE
from tests.support.captures.large_capture import write_large

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = write_large(tmp_path_factory.mktemp("large") / "large.pcap")
    yield path
    path.unlink()


def columns_of(file_index: index.Index) -> dict[str, bytes]:
    return {name: file_index.columns[name].tobytes() for name in file_index.columns}


@pytest.mark.parametrize("walk", [True, False], ids=["walked", "guessed"])
def test_a_large_file_is_indexed_by_several_tasks(spark: SparkSession, large: Path, tmp_path: Path, walk: bool) -> None:
    names = [str(large), str(SHARE)]
    results = kwire.spark.prepare(spark, names, index=str(tmp_path), range_bytes=SPAN_SIZE, walk=walk).collect()

    expected = index.build_index(large)
    assert len(expected.spans) == 3
    assert [(row["file"], row["is_indexed"]) for row in results] == [(name, True) for name in names]
    assert (results[0]["packets"], results[0]["flows"]) == (expected.packet_count, len(expected.flows))
    stored_index = index.load_index(large, index.sidecar_path(large, tmp_path))
    assert stored_index is not None
    assert columns_of(stored_index) == columns_of(expected)
    assert {file.name.split(".")[0] for file in tmp_path.iterdir()} == {"large", "small_share"}


def test_an_indexed_file_is_not_indexed_again(spark: SparkSession, large: Path, tmp_path: Path) -> None:
    file_index = index.open_index(large, cache=tmp_path)
    assert file_index.sidecar is not None
    before = Path(file_index.sidecar).stat().st_mtime_ns
    results = kwire.spark.prepare(spark, str(large), index=str(tmp_path), range_bytes=SPAN_SIZE).collect()

    assert [row["packets"] for row in results] == [file_index.packet_count]
    assert Path(file_index.sidecar).stat().st_mtime_ns == before


def test_executors_list_files_that_the_driver_cannot_access(
    spark: SparkSession, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_not_found(names: list[str]) -> list[str]:
        raise FileNotFoundError(names)

    # Only on the driver: workers are separate processes.
    monkeypatch.setattr(paths, "expand_names", raise_not_found)
    results = kwire.spark.prepare(spark, str(large.parent), index=str(tmp_path), range_bytes=SPAN_SIZE).collect()

    assert [(row["file"], row["is_indexed"]) for row in results] == [(str(large), True)]


def test_a_large_file_that_cannot_be_split_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    packed = tmp_path / "packed.pcap.gz"
    packed.write_bytes(b"\x1f\x8b" + bytes(2 * SPAN_SIZE))
    results = kwire.spark.prepare(spark, str(packed), index="beside", range_bytes=SPAN_SIZE, walk=True).collect()

    columns = ("file", "flows", "packets", "bytes", "is_indexed")
    assert [tuple(row[name] for name in columns) for row in results] == [(str(packed), None, None, None, False)]
    assert list(tmp_path.iterdir()) == [packed]


def test_a_range_needs_at_least_one_byte(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="range_bytes is 0"):
        kwire.spark.prepare(spark, str(SHARE), index="beside", range_bytes=0)
