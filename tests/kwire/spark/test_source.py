"""The data source `kafka_capture`: the rows of the plain library, a task per file, errors that say what is wrong."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import EqualTo, StringContains

import kwire
import kwire.spark
from kwire.capture.schemas import LEVELS
from kwire.spark.source import CaptureDataSource, CaptureReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

CAPTURES = Path(__file__).parents[2] / "captures"
FILES = sorted(map(str, CAPTURES.glob("*.pcap")))


def load(spark: SparkSession, level: str, *names: str, **options: str) -> DataFrame:
    reader = spark.read.format("kafka_capture").option("level", level)
    return reader.options(**options).load(list(names))


def sorted_rows(table: pa.Table) -> list[str]:
    """The rows in an order that does not hang on which task ended first."""
    return sorted(str(row) for row in table.to_pylist())


@pytest.mark.parametrize("level", LEVELS)
def test_spark_and_the_plain_library_give_the_same_rows(spark: SparkSession, level: str) -> None:
    plain = kwire.read_capture(FILES, level=level)

    found = load(spark, level, str(CAPTURES)).toArrow()

    assert found.schema.names == plain.schema.names
    assert found.cast(plain.schema).num_rows == plain.num_rows > 0
    assert sorted_rows(found.cast(plain.schema)) == sorted_rows(plain)


def test_the_rows_carry_payloads_only_when_asked(spark: SparkSession) -> None:
    file = str(CAPTURES / "small_share.pcap")

    shown = load(spark, "records", file, payload="true").toArrow().column("value").to_pylist()
    hidden = load(spark, "records", file).toArrow().column("value").to_pylist()

    assert any(value is not None for value in shown)
    assert all(value is None for value in hidden)


def test_each_file_is_a_task_of_its_own(spark: SparkSession) -> None:
    frame = load(spark, "messages", *FILES[:3])

    assert frame.rdd.getNumPartitions() == 3


def test_patterns_directories_and_single_files_load(spark: SparkSession) -> None:
    one = spark.read.format("kafka_capture").load(FILES[0])
    some = spark.read.format("kafka_capture").load(f"{CAPTURES}/small_a*.pcap")

    assert {row["file"] for row in one.select("file").distinct().collect()} == {FILES[0]}
    assert {row["file"] for row in some.select("file").distinct().collect()} == {f"{CAPTURES}/small_aio.pcap"}


def test_filtered_rows_are_those_that_pass_by_hand(spark: SparkSession) -> None:
    wanted = "api_name IN ('ShareFetch', 'Produce') AND api_key >= 1 AND latency_us > 100 AND client_id IS NOT NULL"
    plain = [
        (row["file"], row["conn_id"], row["correlation_id"])
        for row in kwire.read_capture(FILES).to_pylist()
        if row["api_name"] in ("ShareFetch", "Produce")
        and row["api_key"] >= 1
        and (row["latency_us"] or 0) > 100
        and row["client_id"] is not None
    ]

    found = load(spark, "messages", *FILES).filter(wanted).select("file", "conn_id", "correlation_id").collect()

    assert sorted(map(tuple, found)) == sorted(plain) != []


def test_the_reader_ships_only_what_a_filter_keeps() -> None:
    reader = CaptureDataSource({"path": FILES[0]}).reader(CaptureDataSource({}).schema())
    assert isinstance(reader, CaptureReader)
    left = StringContains(("client_id",), "x")

    assert list(reader.pushFilters([EqualTo(("api_name",), "Metadata"), left])) == [left]
    rows = [name for batch in reader.read(reader.partitions()[0]) for name in batch.column("api_name").to_pylist()]

    assert set(rows) == {"Metadata"}


def test_a_schema_of_fewer_columns_reads_only_those(spark: SparkSession) -> None:
    reader = spark.read.format("kafka_capture").schema("api_name string, latency_us bigint")

    frame = reader.load(FILES[0])

    assert frame.columns == ["api_name", "latency_us"]
    assert frame.filter("api_name IS NOT NULL").count() > 0


def test_times_are_moments_in_utc(spark: SparkSession) -> None:
    file = FILES[0]
    plain = kwire.read_capture([file]).column("req_ts").to_pylist()

    found = load(spark, "messages", file).selectExpr("unix_micros(min(req_ts))").collect()[0][0]

    first = min(moment for moment in plain if moment is not None).astimezone(UTC)
    assert found == round(first.timestamp() * 1_000_000)


@pytest.mark.parametrize(
    ("level", "name", "options", "told"),
    [
        ("packets", FILES[0], {}, "option level is 'packets', and may be messages, partitions"),
        ("messages", FILES[0], {"colour": "red"}, "kafka_capture has no option colour"),
        ("messages", FILES[0], {"ports": "ninety"}, "option ports is 'ninety'"),
        ("messages", FILES[0], {"edition": "9.9"}, "option edition is '9.9': expected one of 4.3"),
        ("messages", str(CAPTURES / "*.nothing"), {}, "no capture file matches"),
        ("messages", __file__, {}, "test_source.py: neither pcap nor pcapng"),
    ],
)
def test_a_wrong_use_is_an_error_that_says_what_is_wrong(
    spark: SparkSession, level: str, name: str, options: dict[str, str], told: str
) -> None:
    with pytest.raises(PySparkException, match=told):
        load(spark, level, name, **options).count()


def test_register_serves_a_session_that_was_started_elsewhere(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.unset("spark.sql.python.filterPushdown.enabled")

    assert kwire.spark.register(other) is other
    assert other.read.format("kafka_capture").load(FILES[0]).filter("api_key = 3").count() > 0


def test_a_session_that_runs_is_taken_as_it_is(spark: SparkSession) -> None:
    again = kwire.spark.session("local[1]")

    assert again.sparkContext is spark.sparkContext


def test_the_session_listens_on_loopback_only_and_serves_no_page(spark: SparkSession) -> None:
    settings = spark.sparkContext.getConf()

    assert settings.get("spark.driver.bindAddress") == "127.0.0.1"
    assert settings.get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
