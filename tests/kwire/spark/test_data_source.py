"""The data source `kafka_capture`: rows equal those of the library, a task per file, clear errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, GreaterThan
from pyspark.sql.functions import parse_json
from pyspark.sql.types import StructType

import kwire
import kwire.spark
from kwire.capture.display_filter.display_filter import DisplayFilter
from kwire.capture.options import Options
from kwire.capture.reader import collect_topic_names, read_rows
from kwire.capture.rows.columns import LEVELS
from kwire.spark.data_source import CaptureDataSource, CaptureReader, PushingReader
from tests.support.spark.capture_readers import read_all

pytestmark = pytest.mark.spark

CAPTURES = Path(__file__).parents[2] / "captures"
FILES = sorted(map(str, CAPTURES.glob("*.pcap*")))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def load(spark: SparkSession, level: str, *names: str, **options: str) -> DataFrame:
    reader = spark.read.format("kafka_capture").option("level", level)
    return reader.options(**options).load(list(names))


def sorted_rows(table: pa.Table) -> list[str]:
    """The rows in an order that is independent of the order of tasks."""
    return sorted(str(row) for row in table.to_pylist())


@pytest.mark.parametrize("level", LEVELS)
def test_spark_and_the_plain_library_give_the_same_rows(spark: SparkSession, level: str) -> None:
    plain = kwire.read_capture(FILES, level=level, topics=collect_topic_names(FILES, Options()))

    found = load(spark, level, str(CAPTURES)).toArrow()

    assert found.schema.names == plain.schema.names
    assert found.cast(plain.schema).num_rows == plain.num_rows > 0
    assert sorted_rows(found.cast(plain.schema)) == sorted_rows(plain)


def test_the_rows_have_payloads_only_on_request(spark: SparkSession) -> None:
    file = str(CAPTURES / "small_share.pcap")

    shown = load(spark, "records", file, payload="true").toArrow().column("value").to_pylist()
    hidden = load(spark, "records", file).toArrow().column("value").to_pylist()

    assert any(value is not None for value in shown)
    assert all(value is None for value in hidden)


def test_each_file_is_a_task_of_its_own_unless_it_is_small(spark: SparkSession) -> None:
    apart, together = load(spark, "messages", *FILES[:3], task_bytes="1", index="none"), load(spark, "messages", *FILES)

    assert apart.rdd.getNumPartitions() == 3
    assert together.rdd.getNumPartitions() == 1


def test_patterns_directories_and_single_files_load(spark: SparkSession) -> None:
    one = spark.read.format("kafka_capture").load(FILES[0])
    some = spark.read.format("kafka_capture").load(f"{CAPTURES}/small_a*.pcap")

    assert {row["file"] for row in one.select("file").distinct().collect()} == {FILES[0]}
    assert {row["file"] for row in some.select("file").distinct().collect()} == {f"{CAPTURES}/small_aio.pcap"}


def test_filtered_rows_equal_those_filtered_in_python(spark: SparkSession) -> None:
    predicate = "api_name IN ('ShareFetch', 'Produce') AND api_key >= 1 AND latency_us > 100 AND client_id IS NOT NULL"
    plain = [
        (row["file"], row["conn_id"], row["correlation_id"])
        for row in kwire.read_capture(FILES).to_pylist()
        if row["api_name"] in ("ShareFetch", "Produce")
        and row["api_key"] >= 1
        and (row["latency_us"] or 0) > 100
        and row["client_id"] is not None
    ]

    frame = load(spark, "messages", *FILES, push_filters="true")
    found = frame.filter(predicate).select("file", "conn_id", "correlation_id").collect()

    assert sorted(map(tuple, found)) == sorted(plain) != []


CONDITIONS = [
    "tls = false AND NOT api_name = 'Fetch'",
    "api_name IN ('ShareFetch', 'Produce') OR api_key = 3",
    "api_name NOT IN ('ShareFetch', 'Produce')",
    "api_key NOT IN (1, NULL)",
    "client_id IS NULL",
    "group_id IS NOT NULL AND NOT group_id <=> member_id",
    "client_id NOT LIKE 'kwire%'",
    "client_id LIKE '%a%' AND conn_id LIKE '127.0.0.1:%'",
    "error_code <> 0",
    "NOT (error_code <=> 0)",
    "latency_us > 1.5 AND latency_us < 70000",
    "req_ts BETWEEN '{middle}' AND '2100-01-01'",
    "req_ts = '{middle}' OR resp_ts < '{middle}'",
    "NOT req_ts < '{middle}' AND broker_port = client_port - 1",
    "NOT (resp_ts <=> '{middle}') AND stream_epoch = 0",
    "status = 'ok' AND order_ok",
    "NOT order_ok",
    "order_ok IS NULL AND api_version >= 0",
]


@pytest.fixture(scope="module")
def unfiltered(spark: SparkSession) -> DataFrame:
    """All rows as a DataFrame of Spark, so that only Spark filters them."""
    return load(spark, "messages", *FILES).localCheckpoint()


@pytest.fixture(scope="module")
def middle(unfiltered: DataFrame) -> str:
    """The median time of requests."""
    median: str = unfiltered.selectExpr("CAST(percentile_approx(req_ts, 0.5) AS STRING)").collect()[0][0]
    return median


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_pushed_filter_gives_the_rows_that_spark_selects_itself(
    spark: SparkSession, unfiltered: DataFrame, middle: str, condition: str
) -> None:
    predicate = condition.format(middle=middle)

    found = load(spark, "messages", *FILES, push_filters="true").filter(predicate).toArrow()

    assert sorted_rows(found) == sorted_rows(unfiltered.filter(predicate).toArrow())


def test_two_filters_of_one_load_have_their_own_rows(spark: SparkSession) -> None:
    """Spark 4.3 reuses a reader that accepted filters, and returns its rows for other queries on the same `load()`."""
    frame = load(spark, "messages", FILES[0])
    whole = kwire.read_capture(FILES[0]).column("api_key").to_pylist()

    kept = {row["api_key"]: row["count"] for row in frame.filter("api_key = 3").groupBy("api_key").count().collect()}
    both = frame.filter("api_key = 18").union(frame.filter("api_key = 3")).groupBy("api_key").count().collect()

    assert kept == {3: whole.count(3)}
    assert {row["api_key"]: row["count"] for row in both} == {3: whole.count(3), 18: whole.count(18)}
    assert frame.count() == len(whole)


FILTERS = [
    ("messages", "api in (Metadata, 0) and latency > 1ms"),
    ("messages", "client ~ '^ck' and not error and conn = 127.0.0.1"),
    ("messages", "req_ts >= 2020-01-01 and (status = ok or api = Fetch)"),
    ("messages", "client = null or api_key != 18"),
    ("partitions", "topic != null and api = produce and records >= 1"),
    ("share_acks", "ack = accept and first_offset > 2"),
    ("flows", "packets_client > 3"),
]


@pytest.mark.parametrize(("level", "text"), FILTERS)
def test_the_option_filter_gives_the_rows_that_pass_it(level: str, text: str) -> None:
    where = DisplayFilter(text, level)
    named = Options(topics=collect_topic_names(FILES, Options()))
    everything = [row | {"topics": ()} for name in FILES for row in read_rows(name, level, named)]
    plain = [row for row in everything if where.matches(row)]
    assert 0 < len(plain) < len(everything)

    found = read_all(reader_of(level=level, filter=text, paths=json.dumps(FILES), path=""))

    keys = [name for name in ("file", "conn_id", "correlation_id", "first_offset", "partition") if name in plain[0]]
    found_keys, expected = ([str([row[key] for key in keys]) for row in rows] for rows in (found, plain))
    assert sorted(found_keys) == sorted(expected)


def test_header_conditions_of_the_option_filter_are_applied_before_bodies_are_decoded() -> None:
    reader = reader_of(filter="api=Fetch and req_ts>2020-01-01 and error=0 and client~'^ck'")

    only = reader.scan_request.reader_options.exchange_filter

    assert only is not None
    assert only.columns == {"api_key", "req_ts", "client_id"}


def reader_of(*names: str, **given: str) -> CaptureReader:
    source = CaptureDataSource({"path": FILES[0], **given})
    whole = source.schema()
    reader = source.reader(StructType([whole[name] for name in names]) if names else whole)
    assert isinstance(reader, CaptureReader)
    return reader


def pushing_reader_of(*names: str) -> PushingReader:
    reader = reader_of(*names, push_filters="true")
    assert isinstance(reader, PushingReader)
    return reader


def test_the_reader_returns_only_rows_that_pass_the_filter() -> None:
    reader = pushing_reader_of()
    left = EqualTo(("latency_us",), 1.5)

    assert list(reader.pushFilters([EqualTo(("api_name",), "Metadata"), left])) == [left]

    assert {row["api_name"] for row in read_all(reader)} == {"Metadata"}


def test_a_filter_may_use_a_column_that_is_not_in_the_result() -> None:
    reader = pushing_reader_of("correlation_id")
    assert list(reader.pushFilters([EqualTo(("api_name",), "Metadata")])) == []

    rows = read_all(reader)

    assert rows
    assert all(set(row) == {"correlation_id"} for row in rows)


def test_header_conditions_are_applied_before_bodies_are_decoded() -> None:
    reader = pushing_reader_of()
    predicate = [EqualTo(("api_name",), "Fetch"), GreaterThan(("req_ts",), NOON), EqualTo(("group_id",), "g")]
    list(reader.pushFilters(predicate))

    only = reader.scan_request.reader_options.exchange_filter

    assert only is not None
    assert only.columns == {"api_name", "req_ts"}


def test_a_schema_of_fewer_columns_reads_only_those(spark: SparkSession) -> None:
    reader = spark.read.format("kafka_capture").schema("api_name string, latency_us bigint")

    frame = reader.load(FILES[0])

    assert frame.columns == ["api_name", "latency_us"]
    assert frame.filter("api_name IS NOT NULL").count() > 0


def test_the_option_columns_selects_columns_and_their_order(spark: SparkSession) -> None:
    frame = load(spark, "messages", FILES[0], columns="latency_us, api_name")

    assert frame.columns == ["latency_us", "api_name"]
    assert frame.toArrow().to_pylist() == kwire.read_capture(FILES[0]).select(frame.columns).to_pylist()


def test_bodies_become_variants_by_parse_json(spark: SparkSession) -> None:
    frame = load(spark, "messages", str(CAPTURES / "small_share.pcap")).filter("api_name = 'ShareFetch'")
    bodies = frame.select(parse_json("body_request").alias("request"), parse_json("body_response").alias("response"))

    found = bodies.selectExpr(
        "schema_of_variant(request) AS kind",
        "variant_get(request, '$.maxWaitMs', 'int') AS wait",
        "variant_get(response, '$.acquisitionLockTimeoutMs', 'int') AS lock",
    ).collect()

    assert found
    assert all(row["kind"].startswith("OBJECT<") for row in found)
    assert {row["lock"] for row in found} == {2_000}
    assert all(row["wait"] >= 0 for row in found)


def test_times_are_in_utc(spark: SparkSession) -> None:
    file = FILES[0]
    plain = kwire.read_capture([file]).column("req_ts").to_pylist()

    found = load(spark, "messages", file).selectExpr("unix_micros(min(req_ts))").collect()[0][0]

    first = min(moment for moment in plain if moment is not None).astimezone(UTC)
    assert found == round(first.timestamp() * 1_000_000)


@pytest.mark.parametrize(
    ("level", "name", "options", "message"),
    [
        ("frames", FILES[0], {}, "option level is 'frames', and may be messages, partitions"),
        ("messages", FILES[0], {"columns": "api_name,api"}, "level messages has no column api; it has file"),
        ("messages", FILES[0], {"colour": "red"}, "kafka_capture has no option colour"),
        ("messages", FILES[0], {"filter": "api=Nope"}, "option filter is 'api=Nope'"),
        ("records", FILES[0], {"filter": "value='x'"}, "with option payload"),
        ("messages", FILES[0], {"push_filters": "yes"}, "option push_filters is 'yes'"),
        ("messages", FILES[0], {"ports": "ninety"}, "option ports is 'ninety'"),
        ("messages", FILES[0], {"edition": "9.9"}, "option edition is '9.9': expected one of 4.4, 4.3"),
        ("messages", str(CAPTURES / "*.nothing"), {}, "no capture file matches"),
        ("messages", __file__, {}, Path(__file__).name + ": neither pcap nor pcapng"),
    ],
)
def test_invalid_use_is_an_error_with_its_cause(level: str, name: str, options: dict[str, str], message: str) -> None:
    with pytest.raises((ValueError, OSError), match=message):
        read_all(reader_of(level=level, path=name, **options))


@pytest.mark.parametrize(
    ("name", "message"),
    [(str(CAPTURES / "*.nothing"), "no capture file matches"), (__file__, "neither pcap nor pcapng")],
)
def test_spark_shows_the_errors_of_planning_and_reading(spark: SparkSession, name: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        load(spark, "messages", name).count()


def test_register_works_with_any_running_session(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.unset("spark.sql.python.filterPushdown.enabled")

    assert kwire.spark.register(other) is other
    assert load(other, "messages", FILES[0], push_filters="true").filter("api_key = 3").count() > 0


def test_a_running_session_is_returned_unchanged(spark: SparkSession) -> None:
    again = kwire.spark.session("local[1]")

    assert again.sparkContext is spark.sparkContext


def test_the_session_listens_on_loopback_only_and_serves_no_page(spark: SparkSession) -> None:
    settings = spark.sparkContext.getConf()

    assert settings.get("spark.driver.bindAddress") == "127.0.0.1"
    assert settings.get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
