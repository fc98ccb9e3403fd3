"""What works with every version of PySpark that setup.cfg allows; `make test-lowest` plays it with the lowest one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import kwire
from kwire.cli.main import main
from kwire.spark.analyses import latency
from kwire.spark.data_source import CaptureDataSource
from kwire.spark.source.pushdown import HAS_FILTERS
from kwire.spark.source.scan_request import build_scan_request
from kwire.spark.streaming.stream_reader import HAS_LIMITS, CaptureStreamReader
from tests.support.captures.capture_files import SHARE
from tests.support.captures.rotated_captures import pieces
from tests.support.spark.capture_readers import comparable, open_reader, read_tasks

_FILE_COLUMNS = {"file", "req_packet", "resp_packet"}


def _open_unlimited(folder: Path) -> CaptureStreamReader:
    """The reader for versions that pass neither the start of a batch nor its limit."""
    texts = {"path": str(folder / "in"), "state": str(folder / "state")}
    schema = CaptureDataSource(texts).schema()
    return CaptureStreamReader(texts, build_scan_request(texts, schema, is_stream=True))


def _rows(reader: CaptureStreamReader, start: int, end: int) -> list[dict[str, Any]]:
    return read_tasks(reader, reader.partitions({"batch": start}, {"batch": end}))


def test_without_a_start_a_batch_has_all_new_files(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 4)
    shutil.move(files[3], tmp_path / "later")
    reader = _open_unlimited(tmp_path)

    first, again = reader.latestOffset(), reader.latestOffset()
    rows = _rows(reader, 0, 1)
    reader.commit(first)
    shutil.move(tmp_path / "later", files[3])
    second = reader.latestOffset()
    rows += _rows(reader, 1, 2)

    assert (first, again, second) == ({"batch": 1}, {"batch": 1}, {"batch": 2})
    assert set(comparable(rows, _FILE_COLUMNS)) <= set(comparable(kwire.read_capture(SHARE).to_pylist(), _FILE_COLUMNS))
    assert len(rows) > 30


def test_without_a_start_a_restart_continues_with_planned_and_new_files(tmp_path: Path) -> None:
    files = pieces(SHARE, tmp_path / "in", 4)
    shutil.move(files[3], tmp_path / "later")
    once = _open_unlimited(tmp_path)
    assert once.latestOffset() == {"batch": 1}
    whole = _rows(once, 0, 1)

    # Spark ended before it had noted the batch, and a file has come.
    shutil.move(tmp_path / "later", files[3])
    restarted = _open_unlimited(tmp_path)

    assert restarted.latestOffset() == {"batch": 2}
    rows = _rows(restarted, 0, 2)
    assert set(comparable(whole, _FILE_COLUMNS)) <= set(comparable(rows, _FILE_COLUMNS))


def test_limits_of_batches_are_accepted_or_refused_with_the_version_that_has_them(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    texts = {"path": str(tmp_path / "in"), "state": str(tmp_path / "state"), "maxfilespertrigger": "1"}
    source = CaptureDataSource(texts)

    if HAS_LIMITS:
        assert str(source.streamReader(source.schema()).getDefaultReadLimit()) == "ReadMaxFiles(max_files=1)"
        return
    with pytest.raises(ValueError, match=r"maxFilesPerTrigger and maxBytesPerTrigger need Spark 4\.2"):
        source.streamReader(source.schema())


def test_pushed_filters_are_accepted_or_refused_with_the_version_that_has_them() -> None:
    if HAS_FILTERS:
        assert hasattr(open_reader(SHARE, push_filters="true"), "pushFilters")
        return
    with pytest.raises(ValueError, match=r"push_filters needs Spark 4\.1"):
        open_reader(SHARE, push_filters="true")


# PySpark 4.0 and 4.1 leave sockets and files to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_reads_streams_and_analyses_captures(spark: SparkSession, tmp_path: Path) -> None:
    whole = kwire.read_capture(SHARE).to_pylist()

    messages = spark.read.format("kafka_capture").load(str(SHARE))
    rows = messages.toArrow().to_pylist()
    filtered = spark.read.format("kafka_capture").option("filter", "api_name == ShareFetch").load(str(SHARE))
    slow = messages.where("latency_us > 20000").count()

    assert comparable(rows, {"file"}) == comparable(whole, {"file"})
    assert filtered.count() == sum(row["api_name"] == "ShareFetch" for row in whole)
    assert slow == sum((row["latency_us"] or 0) > 20_000 for row in whole)
    assert {row["api_name"] for row in latency(messages).collect()} <= {row["api_name"] for row in whole}

    pieces(SHARE, tmp_path / "in", 3)
    stream = spark.readStream.format("kafka_capture").option("state", str(tmp_path / "state"))
    sink = stream.load(str(tmp_path / "in")).writeStream.format("parquet")
    sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
    sink.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    assert spark.read.parquet(str(tmp_path / "out")).count() > 30

    page = tmp_path / "report.html"
    assert main(["report", os.fspath(SHARE), "-o", str(page)]) == 0
    assert page.stat().st_size > 10_000
