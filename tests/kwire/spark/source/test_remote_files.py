"""Captures read through Spark, and indexes built by executors: the rows are those of the library."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import kwire
import kwire.spark
from tests.support.captures.rotated_captures import pieces
from tests.support.spark.capture_readers import comparable

pytestmark = pytest.mark.spark

CAPTURES = Path(__file__).parents[3] / "captures"
SHARE = CAPTURES / "small_share.pcap"
PLACES = {"file", "req_packet", "resp_packet", "session_partitions"}


def test_files_are_read_through_spark(spark: SparkSession) -> None:
    found = kwire.spark.read_remote(spark, f"{CAPTURES.as_uri()}/small_*.pcap").toArrow().to_pylist()

    whole = kwire.read_capture(sorted(CAPTURES.glob("small_*.pcap"))).to_pylist()
    assert comparable(found, PLACES) == comparable(whole, PLACES)
    assert {row["file"] for row in found} == {f"file:{path}" for path in CAPTURES.glob("small_*.pcap")}


def test_the_option_filter_applies_to_files_read_through_spark(spark: SparkSession) -> None:
    found = kwire.spark.read_remote(spark, SHARE.as_uri(), filter="api=ShareFetch", columns="api_name").toArrow()

    whole = kwire.read_capture(SHARE).column("api_name").to_pylist()
    assert found.to_pylist() == [{"api_name": "ShareFetch"}] * whole.count("ShareFetch") != []
    with pytest.raises(ValueError, match="push_filters"):
        kwire.spark.read_remote(spark, SHARE.as_uri(), push_filters="true")


def test_a_series_goes_through_the_shuffle(spark: SparkSession, tmp_path: Path) -> None:
    pieces(SHARE, tmp_path / "in", 4)

    found = kwire.spark.read_remote(spark, (tmp_path / "in").as_uri(), across_files="true").toArrow().to_pylist()

    assert comparable(found, PLACES) == comparable(kwire.read_capture(SHARE).to_pylist(), PLACES)


def test_a_file_that_is_no_capture_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "other.pcap").write_bytes(b"no capture")

    with pytest.raises(PySparkException, match=r"other\.pcap: neither pcap nor pcapng"):
        kwire.spark.read_remote(spark, str(tmp_path)).count()


def test_executors_build_the_indexes_that_queries_use(spark: SparkSession, tmp_path: Path) -> None:
    results = kwire.spark.prepare(spark, [str(SHARE), str(CAPTURES / "small_ck.pcap")], index=str(tmp_path)).collect()

    names = sorted((Path(row["file"]).name, row["is_indexed"]) for row in results)
    assert names == [("small_ck.pcap", True), ("small_share.pcap", True)]
    assert all(row["flows"] > 1 and row["packets"] > 100 and row["bytes"] > 1000 for row in results)
    assert len(list(tmp_path.glob("*.kwire-index"))) == 2
