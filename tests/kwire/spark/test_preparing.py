"""Executors index large captures by ranges and shards, and leave the same sidecars, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kwire.spark
from kwire.capture import index
from kwire.capture.index.walking.walk import SPAN_SIZE
from kwire.spark import paths
from tests.kwire.capture.wire import SHARE
from tests.kwire.spark.large import write_large

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = write_large(tmp_path_factory.mktemp("large") / "large.pcap")
    yield path
    path.unlink()


def columns_of(found: index.Index) -> dict[str, bytes]:
    return {name: found.columns[name].tobytes() for name in found.columns}


@pytest.mark.parametrize("walk", [True, False], ids=["walked", "guessed"])
def test_a_large_file_is_indexed_by_several_tasks(spark: SparkSession, large: Path, tmp_path: Path, walk: bool) -> None:
    names = [str(large), str(SHARE)]
    told = kwire.spark.prepare(spark, names, index=str(tmp_path), range_bytes=SPAN_SIZE, walk=walk).collect()

    expected = index.built(large)
    assert len(expected.spans) == 3
    assert [(row["file"], row["is_indexed"]) for row in told] == [(name, True) for name in names]
    assert (told[0]["packets"], told[0]["flows"]) == (expected.packet_count, len(expected.flows))
    kept = index.load(large, index.sidecar_of(large, tmp_path))
    assert kept is not None
    assert columns_of(kept) == columns_of(expected)
    assert {file.name.split(".")[0] for file in tmp_path.iterdir()} == {"large", "small_share"}


def test_what_is_indexed_is_not_indexed_again(spark: SparkSession, large: Path, tmp_path: Path) -> None:
    own = index.of(large, cache=tmp_path)
    assert own.sidecar is not None
    before = Path(own.sidecar).stat().st_mtime_ns
    told = kwire.spark.prepare(spark, str(large), index=str(tmp_path), range_bytes=SPAN_SIZE).collect()

    assert [row["packets"] for row in told] == [own.packet_count]
    assert Path(own.sidecar).stat().st_mtime_ns == before


def test_executors_look_where_the_driver_sees_nothing(
    spark: SparkSession, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(names: list[str]) -> list[str]:
        raise FileNotFoundError(names)

    # Only of the driver: workers are processes of their own.
    monkeypatch.setattr(paths, "expand", nothing)
    told = kwire.spark.prepare(spark, str(large.parent), index=str(tmp_path), range_bytes=SPAN_SIZE).collect()

    assert [(row["file"], row["is_indexed"]) for row in told] == [(str(large), True)]


def test_a_large_file_that_cannot_be_cut_is_told_of(spark: SparkSession, tmp_path: Path) -> None:
    packed = tmp_path / "packed.pcap.gz"
    packed.write_bytes(b"\x1f\x8b" + bytes(2 * SPAN_SIZE))
    told = kwire.spark.prepare(spark, str(packed), index="beside", range_bytes=SPAN_SIZE, walk=True).collect()

    assert [row.asDict() for row in told] == [
        {"file": str(packed), "flows": None, "packets": None, "bytes": None, "is_indexed": False}
    ]
    assert list(tmp_path.iterdir()) == [packed]


def test_a_range_has_bytes(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="range_bytes is 0"):
        kwire.spark.prepare(spark, str(SHARE), index="beside", range_bytes=0)
