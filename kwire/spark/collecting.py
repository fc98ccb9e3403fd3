"""Computing the tables of a report: which rows a page shows of each, queries beside each other, small captures fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.
from pyspark.sql.types import TimestampType

from kwire.spark import analyses
from kwire.spark.tables import is_small

# Rows of one table; a capture may name as many groups or members as it likes, and a page has an end.
ROWS_MAX = 200
POINTS_MAX = 1_500

# Bytes of captures below which planning and compiling queries costs more than running them.
SMALL = 64 * 1024 * 1024
# Measured on the seven captures of `tests/captures`: the same report in half the time. Compiled code, shuffles in many
# parts and plans that are made anew while they run pay only where there is much to do.
SMALL_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
# Queries that are planned beside each other.
THREADS = 4

_UP, _DOWN = F.asc_nulls_last, F.desc_nulls_last


def worst() -> dict[str, tuple[list[Column], int]]:
    """The tables of which a page shows the worst rows only: in which order, and how many."""
    return {
        "errors": ([_DOWN("failures"), _UP("api_name"), _UP("topic"), _UP("partition")], ROWS_MAX),
        "poison_records": ([_DOWN("delivery_count_max"), *map(_UP, analyses.RECORD)], ROWS_MAX),
        "lock_times": ([_DOWN("lock_share"), _DOWN("held_us")], POINTS_MAX),
        "lock_use": ([_DOWN("late"), _DOWN("records"), _UP("member_id")], ROWS_MAX),
        "clients": ([_DOWN("requests"), _UP("client_id")], ROWS_MAX),
        "client_versions": ([_UP("client_id"), _UP("api_name")], ROWS_MAX * 5),
        "batch_sizes": ([_DOWN("tiny"), _DOWN("requests"), _UP("client_id"), _UP("api_name")], ROWS_MAX),
        "connections": (
            [_DOWN(F.col("retransmits") + F.col("zero_windows")), _DOWN("requests"), _UP("first_ts")],
            ROWS_MAX,
        ),
        "depth": ([_DOWN("in_flight_max"), _DOWN("throttle_ms_max"), _UP("conn_id")], ROWS_MAX * 20),
        "membership": ([_UP("group_id"), _UP("first_ts")], ROWS_MAX * 10),
        "rebalances": ([_DOWN("errors"), _DOWN("epochs"), _UP("group_id")], ROWS_MAX),
        "conformance": ([_UP("rule"), _UP("ts"), _UP("file")], ROWS_MAX),
    }


# One row for each record or failure: for Parquet, not for a page.
NOT_SHOWN = frozenset({"failures", "outcomes", "attempts", "share_timeline"})


@contextmanager
def tuned(spark: SparkSession, files: Sequence[str]) -> Iterator[None]:
    """Settings of the session that suit small captures, for as long as the block runs."""
    settings = SMALL_SETTINGS if is_small(files, SMALL) else {}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def collect(made: Mapping[str, DataFrame]) -> tuple[dict[str, list[Row]], dict[str, int]]:
    """The rows of every table that the page shows, and how many of each it leaves out."""
    orders = worst()

    def ask(name: str) -> tuple[list[Row], int]:
        """The rows of one table."""
        order, count = orders.get(name, ([], 0))
        if not count:
            return in_micros(made[name]).collect(), 0
        rows = in_micros(made[name].orderBy(*order).limit(count)).collect()
        return rows, made[name].count() - count if len(rows) == count else 0

    # Planning a query takes as long as running it on little data, so some are planned at once.
    with ThreadPoolExecutor(THREADS) as pool:
        names = [name for name in made if name not in NOT_SHOWN]
        found = dict(zip(names, pool.map(ask, names), strict=True))
    return {name: rows for name, (rows, _) in found.items()}, {name: left for name, (_, left) in found.items() if left}


def write(made: Mapping[str, DataFrame], folder: str) -> None:
    """Each table, whole, as Parquet in a folder of its name."""
    for name, table in made.items():
        table.write.mode("errorifexists").parquet(f"{folder.rstrip('/')}/{name}")


def in_micros(rows: DataFrame) -> DataFrame:
    """Times as microseconds since 1970, `x_us` for `x_ts`: PySpark would collect times in a zone, and not say which."""
    times = [each.name for each in rows.schema.fields if isinstance(each.dataType, TimestampType)]
    named = {name: "ts_us" if name == "ts" else f"{name.removesuffix('_ts')}_us" for name in times}
    return rows.withColumns({new: F.unix_micros(name) for name, new in named.items()})
