"""Computation of a report's tables: row limits of the page, parallel queries, settings for small captures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.
from pyspark.sql.types import TimestampType

from kwire.report.levels import fits_size
from kwire.spark import analyses

# Row limit of one table: a capture may contain any number of groups or members.
ROWS_MAX = 200
POINTS_MAX = 1_500

# Size of captures, bytes, below which planning and compiling queries costs more than running them.
SMALL_SIZE_MAX = 64 * 1024 * 1024
# Measured on the seven captures of `tests/captures`: the same report in half the time. Compiled code, many shuffle
# partitions and adaptive plans are worth their cost only for large captures.
SMALL_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
# Queries that are planned in parallel.
THREADS = 4

# The tables of which the page shows only the first rows: how many, and their order; a minus means descending.
ROW_LIMITS = {
    "errors": (ROWS_MAX, ("-failures", "api_name", "topic", "partition")),
    "poison_records": (ROWS_MAX, ("-delivery_count_max", *analyses.RECORD)),
    "dead_letters": (ROWS_MAX, ("-records", "group_id", "topic", "reason")),
    "lock_times": (POINTS_MAX, ("-lock_share", "-held_us", "acquired_ts", "topic", "partition", "first_offset")),
    "lock_use": (ROWS_MAX, ("-late", "-records", "member_id")),
    "clients": (ROWS_MAX, ("-requests", "client_id")),
    "client_versions": (ROWS_MAX * 5, ("client_id", "api_name")),
    "batch_sizes": (ROWS_MAX, ("-tiny", "-requests", "client_id", "api_name")),
    "connections": (ROWS_MAX, ("-retransmits + zero_windows", "-requests", "first_ts")),
    "requests_in_flight": (ROWS_MAX * 20, ("-in_flight_max", "-throttle_ms_max", "conn_id")),
    "membership": (ROWS_MAX * 10, ("group_id", "first_ts")),
    "rebalances": (ROWS_MAX, ("-errors", "-epochs", "group_id")),
    "conformance": (ROWS_MAX, ("rule", "ts", "file")),
}
# Tables with a row for each record or failure: for Parquet, not for the page.
TABLES_NOT_SHOWN = frozenset({"failures", "outcomes", "attempts", "share_timeline"})


@contextmanager
def small_capture_settings(spark: SparkSession, files: Sequence[str]) -> Iterator[None]:
    """Apply session settings for small captures within the context."""
    settings = SMALL_SETTINGS if fits_size(files, SMALL_SIZE_MAX) else {}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value_before in before.items():
            spark.conf.unset(name) if value_before is None else spark.conf.set(name, value_before)


def collect_tables(tables: Mapping[str, DataFrame]) -> tuple[dict[str, list[Row]], dict[str, int]]:
    """The rows of every table on the page, and how many rows of each are omitted."""

    def collect_table(name: str) -> tuple[list[Row], int]:
        """The rows of one table."""
        if name not in ROW_LIMITS:
            return with_micros(tables[name]).collect(), 0
        count, order = ROW_LIMITS[name]
        # Sorting reads all rows, so that they are counted by the same query.
        observation = Observation()
        all_rows = tables[name].observe(observation, F.count(F.lit(1)).alias("rows"))
        rows = with_micros(all_rows.orderBy(*map(_sort_order, order)).limit(count)).collect()
        return rows, observation.get["rows"] - count if len(rows) == count else 0

    # Planning a query takes as long as running it on little data, so several are planned in parallel.
    with ThreadPoolExecutor(THREADS) as pool:
        names = [name for name in tables if name not in TABLES_NOT_SHOWN]
        results = dict(zip(names, pool.map(collect_table, names), strict=True))
    omitted = {name: count for name, (_, count) in results.items() if count}
    return {name: rows for name, (rows, _) in results.items()}, omitted


def _sort_order(text: str) -> Column:
    column = F.expr(text.removeprefix("-"))
    return column.desc_nulls_last() if text.startswith("-") else column.asc_nulls_last()


def write_tables(tables: Mapping[str, DataFrame], folder: str) -> None:
    """Write each complete table as Parquet to a folder of its name."""
    for name, table in tables.items():
        table.write.mode("errorifexists").parquet(f"{folder.rstrip('/')}/{name}")


def with_micros(rows: DataFrame) -> DataFrame:
    """Times as microseconds since 1970, `x_us` for `x_ts`: PySpark would collect times in an unspecified time zone."""
    times = [column.name for column in rows.schema.fields if isinstance(column.dataType, TimestampType)]
    new_names = {name: "ts_us" if name == "ts" else f"{name.removesuffix('_ts')}_us" for name in times}
    return rows.withColumns({new: F.unix_micros(name) for name, new in new_names.items()})
