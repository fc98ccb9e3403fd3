"""Captures on storage that only Spark can access: a real HDFS, and any folder by URL; unusual file names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import kwire
import kwire.spark
from tests.support.captures.rotated_captures import pieces
from tests.support.spark.capture_readers import Row, comparable
from tests.support.spark.remote_storage import CAPTURE_NAMES, NAMES, PLACE, SECRET, SHARE, contents, hdfs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

# Columns that differ in a series of files: packets are counted by file.
PLACES = {"file", "req_packet", "resp_packet", "session_partitions"}


@pytest.fixture(scope="module", params=[os.environ[PLACE]] if PLACE in os.environ else ["file", "hdfs"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty folder."""
    folder = tmp_path_factory.mktemp("place")
    if request.param == "hdfs":
        with hdfs(folder) as address:
            yield f"{address}/captures"
    else:
        yield f"file:{folder}" if request.param == "file" else request.param


@pytest.fixture(scope="module")
def filled(spark: SparkSession, place: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same with the files of `NAMES` in the folder `in`, and a series in `series`."""
    for name in NAMES:
        write_file(spark, f"{place}/in/{name}", contents(name))
    for file in pieces(SHARE, tmp_path_factory.mktemp("pieces") / "series", 4):
        write_file(spark, f"{place}/series/{file.name}", file.read_bytes())
    return place


def write_file(spark: SparkSession, address: str, content: bytes) -> None:
    """Write a file through the Hadoop of Spark."""
    assert spark._jvm is not None
    path = spark._jvm.org.apache.hadoop.fs.Path(address)
    with_settings = spark._jsparkSession.sessionState().newHadoopConf()
    stream = path.getFileSystem(with_settings).create(path)
    stream.write(content)
    stream.close()


def read(spark: SparkSession, *names: str, **options: str) -> DataFrame:
    return kwire.spark.read_remote(spark, names, **options)


def files_of(rows: DataFrame) -> list[str]:
    return sorted(row["file"] for row in rows.select("file").distinct().collect())


def test_a_directory_means_the_captures_in_it_and_below(spark: SparkSession, filled: str) -> None:
    found = read(spark, f"{filled}/in", bodies="false").toArrow().to_pylist()

    assert SECRET not in str(found)
    whole = kwire.read_capture(SHARE, bodies=False).to_pylist()
    by_file: dict[str, list[Row]] = {}
    for row in found:
        by_file.setdefault(row["file"], []).append(row)
    assert sorted(by_file) == sorted(f"{filled}/in/{name}" for name in CAPTURE_NAMES)
    assert all(comparable(rows, PLACES) == comparable(whole, PLACES) for rows in by_file.values())


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("plain.pcap", ["plain.pcap"]),
        ("two words.pcap", ["two words.pcap"]),
        ("100%25.pcap", ["100%25.pcap"]),
        ("größe.pcap", ["größe.pcap"]),
        ("capture.dump", ["capture.dump"]),
        ("*.dump", ["capture.dump"]),
        ("p*", ["plain.pcap", "packed.pcap.gz", "packed.pcap.zst"]),
        ("{plain,t?o words}.[op]*", ["plain.pcap", "two words.pcap"]),
        ("day=*", ["day=2026-03-01/hour=7/nested.pcap", "day=2026-03-02/nested.cap"]),
        ("day=2026-03-0[^1]/*", ["day=2026-03-02/nested.cap"]),
    ],
)
def test_names_and_patterns_are_those_of_hadoop(
    spark: SparkSession, filled: str, pattern: str, names: list[str]
) -> None:
    found = files_of(read(spark, f"{filled}/in/{pattern}", columns="file"))

    assert found == sorted(f"{filled}/in/{name}" for name in names)


def test_the_column_file_is_a_readable_name(spark: SparkSession, filled: str) -> None:
    files = files_of(read(spark, f"{filled}/in", columns="file"))
    plain = [file for file in files if "?" not in file]

    assert files_of(read(spark, *plain, columns="file")) == plain


def test_a_series_goes_through_the_shuffle(spark: SparkSession, filled: str) -> None:
    found = read(spark, f"{filled}/series/*.pcap", across_files="true").toArrow().to_pylist()

    assert comparable(found, PLACES) == comparable(kwire.read_capture(SHARE).to_pylist(), PLACES)


def test_a_file_that_is_too_large_is_named_before_reading(spark: SparkSession, filled: str) -> None:
    spark.conf.set("spark.sql.sources.binaryFile.maxLength", "50000")
    try:
        with pytest.raises(ValueError, match=r"/in/.* \(and \d more files\) has \d+ bytes.*at most 50000 .*editcap"):
            read(spark, f"{filled}/in")
        # The size of other files is not limited.
        spark.conf.set("spark.sql.sources.binaryFile.maxLength", "100000")
        assert read(spark, f"{filled}/in", columns="file").count() > 0
    finally:
        spark.conf.unset("spark.sql.sources.binaryFile.maxLength")


def test_a_name_without_a_match_is_an_error_that_names_it(spark: SparkSession, filled: str) -> None:
    with pytest.raises(PySparkException, match=r"Path does not exist: .*/nowhere") as error:
        read(spark, f"{filled}/nowhere")
    assert SECRET not in str(error.value)
    write_file(spark, f"{filled}/other/notes.txt", b"")
    with pytest.raises(FileNotFoundError, match=r"no capture file matches .*/other"):
        read(spark, f"{filled}/other")


def test_a_password_in_a_name_is_refused_and_not_printed(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match=r"'ftp://me:\*\*\*@127\.0\.0\.1/a\.pcap' has a password") as error:
        read(spark, "ftp://me:hunter2@127.0.0.1/a.pcap")

    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("scheme", ["hdfs://127.0.0.1:9/in", "s3a://bucket/in", "hdfs:/in", "s3a://me:hunter2@in"])
def test_the_format_names_the_function_for_remote_storage(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    captures = spark.readStream.format("kafka_capture").option("state", str(tmp_path / "state")).load(scheme)
    sink = captures.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))

    with pytest.raises(PySparkException, match=r"kwire\.spark\.read_remote") as error:
        spark.read.format("kafka_capture").load(scheme).count()
    with pytest.raises(PySparkException, match=r"kwire\.spark\.read_remote"):
        sink.start().processAllAvailable()
    assert "hunter2" not in str(error.value)
