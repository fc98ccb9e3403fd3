"""From capture files to a `Report`: the only place where the page's numbers are computed, all of them by Spark."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.
from pyspark.sql.types import TimestampType

from kwire.spark import analyses, share_plot, tables
from kwire.spark.model import (
    AckRow,
    BatchRow,
    BreachRow,
    ClientRow,
    ConnectionRow,
    DeliveryRow,
    DepthRow,
    ErrorRow,
    FileRow,
    GroupRow,
    LatencyRow,
    LifeRow,
    LockRow,
    LockUseRow,
    PoisonRow,
    RebalanceRow,
    Report,
    RuleRow,
    SlowRow,
    StepRow,
    Timeline,
    VersionRow,
)
from kwire.spark.share_plot import SharePanel

Progress = Callable[[str], None]
T = TypeVar("T")

BINS = 48
# Steps of time that people count in, in microseconds.
STEPS_US = [
    *(unit * 10**power for power in range(6) for unit in (1, 2, 5)),
    *(
        seconds * 1_000_000
        for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)
    ),
]
DAY_US = 86_400_000_000

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

_DOWN = F.desc_nulls_last


def worst() -> dict[str, tuple[list[Column], int]]:
    """The tables of which a page shows the worst rows only: in which order, and how many."""
    ascending = {name: F.col(name) for name in ("api_name", "file", "client_id", "first_ts", "ts", "conn_id")}
    return {
        "errors": ([_DOWN("failures"), ascending["api_name"], F.col("topic"), F.col("partition")], ROWS_MAX),
        "poison_records": ([_DOWN("delivery_count_max"), *map(F.col, analyses.RECORD)], ROWS_MAX),
        "lock_times": ([_DOWN("lock_share"), _DOWN("held_us")], POINTS_MAX),
        "lock_use": ([_DOWN("late"), _DOWN("records"), F.col("member_id")], ROWS_MAX),
        "clients": ([_DOWN("requests"), ascending["client_id"]], ROWS_MAX),
        "client_versions": ([ascending["client_id"], ascending["api_name"]], ROWS_MAX * 5),
        "batch_sizes": ([_DOWN("tiny"), _DOWN("requests"), *map(F.col, ("client_id", "api_name"))], ROWS_MAX),
        "connections": (
            [_DOWN(F.col("retransmits") + F.col("zero_windows")), _DOWN("requests"), ascending["first_ts"]],
            ROWS_MAX,
        ),
        "depth": ([_DOWN("in_flight_max"), _DOWN("throttle_ms_max"), ascending["conn_id"]], ROWS_MAX * 20),
        "membership": ([F.col("group_id"), ascending["first_ts"]], ROWS_MAX * 10),
        "rebalances": ([_DOWN("errors"), _DOWN("epochs"), F.col("group_id")], ROWS_MAX),
        "conformance": ([F.col("rule"), ascending["ts"], ascending["file"]], ROWS_MAX),
    }


def gather(
    spark: SparkSession,
    files: Sequence[str],
    *,
    options: Mapping[str, str] | None,
    progress: Progress,
    parquet: str | None = None,
) -> Report:
    """Read the captures and compute what the report says.

    Args: options: options of `kafka_capture` for all levels, as ports or edition. progress: is told each step.
        parquet: a folder that the tables are written to as well; it must not hold any of them yet.
    """
    with _tuned(spark, files):
        progress(f"decoding {len(files)} capture file{'s' if len(files) != 1 else ''}")
        levels = tables.read(spark, files, options)
        overview = _in_micros(analyses.overview(levels.messages)).collect()
        rows = [_file(row) for row in overview]
        rows.sort(key=lambda row: files.index(row.name) if row.name in files else 0)
        spans = start_us, step_us, _ = time_bins(rows)
        has_shares = any(row["share_requests"] for row in overview)
        made = tables.tables(levels, start_us=start_us, step_us=step_us, has_shares=has_shares)
        progress(f"computing {len(made)} tables")
        found, omitted = _collect(made)
        panels = _panels(made["share_timeline"], spans) if has_shares else []
        if parquet is not None:
            progress(f"writing {len(made)} tables to {parquet}")
            _write(made, parquet)
        levels.release()
        for table in made.values():
            table.unpersist()
    shares = _shares(found, spans) if has_shares else {}
    return Report(files=rows, **_messages(found, spans), **shares, **_lists(found), panels=panels, omitted=omitted)


def _panels(timeline: DataFrame, spans: tuple[int, int, int]) -> list[SharePanel]:
    start_us, step_us, bins = spans
    return share_plot.panels(timeline, start_us=start_us, step_us=step_us, bins=bins)


def _write(made: Mapping[str, DataFrame], folder: str) -> None:
    """Each table, whole, as Parquet in a folder of its name."""
    for name, table in made.items():
        table.write.mode("errorifexists").parquet(f"{folder.rstrip('/')}/{name}")


@contextmanager
def _tuned(spark: SparkSession, files: Sequence[str]) -> Iterator[None]:
    """Settings of the session that suit small captures, for as long as the block runs."""
    known = [os.path.getsize(file) for file in files if os.path.isfile(file)]
    settings = SMALL_SETTINGS if len(known) == len(files) and sum(known) < SMALL else {}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def _collect(made: Mapping[str, DataFrame]) -> tuple[dict[str, list[Row]], dict[str, int]]:
    """The rows of every table that the page shows, and how many of each it leaves out."""
    orders = worst()

    def ask(name: str) -> tuple[list[Row], int]:
        """The rows of one table."""
        order, count = orders.get(name, ([], 0))
        if not count:
            return _in_micros(made[name]).collect(), 0
        rows = _in_micros(made[name].orderBy(*order).limit(count)).collect()
        return rows, made[name].count() - count if len(rows) == count else 0

    # Planning a query takes as long as running it on little data, so some are planned at once.
    with ThreadPoolExecutor(THREADS) as pool:
        names = [name for name in made if name not in NOT_SHOWN]
        found = dict(zip(names, pool.map(ask, names), strict=True))
    return {name: rows for name, (rows, _) in found.items()}, {name: left for name, (_, left) in found.items() if left}


# One row for each record or failure: for Parquet, not for a page.
NOT_SHOWN = frozenset({"failures", "outcomes", "attempts", "share_timeline"})


def _messages(found: Mapping[str, list[Row]], spans: tuple[int, int, int]) -> dict[str, Any]:
    totals = found["totals"][0]
    return {
        "statuses": {row["status"]: row["messages"] for row in found["statuses"]},
        **{name: totals[name] for name in ("clients", "connections", "error_responses", "req_bytes", "resp_bytes")},
        "latency": sorted(map(_latency, found["latency"]), key=lambda row: (-row.p99_us, row.api)),
        "traffic": _timeline(found["traffic"], *spans),
        "errors": _timeline(found["errors_over_time"], *spans),
        "churn": _timeline(found["churn"], *spans),
    }


def _shares(found: Mapping[str, list[Row]], spans: tuple[int, int, int]) -> dict[str, Any]:
    partitions = [_delivery(row) for row in found["redeliveries"]]
    partitions.sort(key=lambda row: (-row.redelivered, -row.acquisitions, row.group, row.topic, row.partition))
    by_count: dict[str, dict[int, int]] = defaultdict(dict)
    for row in sorted(found["deliveries_by_count"], key=lambda row: row["delivery_count"] or 0):
        by_count[row["group_id"] or ""][row["delivery_count"]] = row["records"]
    fates: dict[str, dict[str, int]] = defaultdict(dict)
    for row in found["fates"]:
        fates[row["group_id"] or ""][row["outcome"]] = row["records"]
    members = _acks(found["acknowledgements"])
    return {
        "share_traffic": _timeline(found["deliveries_over_time"], *spans),
        "groups": _groups(partitions),
        "deliveries": partitions,
        "delivery_counts": dict(by_count),
        "outcomes": dict(fates),
        "acks": members,
        "refused_acks": sum(row.refused for row in members),
    }


def _lists(found: Mapping[str, list[Row]]) -> dict[str, Any]:
    """The tables whose rows are shown as they are; those of share groups are there only where these are."""
    return {
        "slowest": _made(SlowRow, found["slowest"]),
        "error_rows": _made(ErrorRow, found["errors"]),
        "poison": _poison(found.get("poison_records", []), found.get("contents", [])),
        "lives": _made(LifeRow, found.get("life_lines", [])),
        "locks": _made(LockRow, found.get("lock_times", [])),
        "lock_use": _made(LockUseRow, found.get("lock_use", [])),
        "client_rows": _made(ClientRow, found["clients"]),
        "versions": _made(VersionRow, found["client_versions"]),
        "batches": _made(BatchRow, found["batch_sizes"]),
        "connection_rows": _made(ConnectionRow, found["connections"]),
        "depth": _made(DepthRow, found["depth"]),
        "steps": _made(StepRow, found["membership"]),
        "rebalances": _made(RebalanceRow, found["rebalances"]),
        "rules": sorted(_made(RuleRow, found["breaches"]), key=lambda row: (-row.breaches, row.rule)),
        "breaches": _made(BreachRow, found["conformance"]),
    }


def _poison(rows: Sequence[Row], contents: Sequence[Row]) -> list[PoisonRow]:
    """The records with their contents, where these were asked for."""
    known = {(row["topic"], row["partition"], row["offset"]): row for row in contents}
    made = []
    for row in rows:
        content = known.get((row["topic"], row["partition"], row["offset"]))
        names = [each.name for each in fields(PoisonRow) if each.name not in ("key", "value")]
        bare = PoisonRow(**{name: row[name] for name in names})
        key, value = (
            _content(content[name], content[f"{name}_size"]) if content else None for name in ("key", "value")
        )
        made.append(replace(bare, key=key, value=value))
    return made


def _content(data: bytes | None, size: int | None) -> str:
    if data is None:
        return "null"
    more = f"\N{HORIZONTAL ELLIPSIS} ({size:,} bytes)" if size is not None and size > len(data) else ""
    return bytes(data).decode("utf-8", "backslashreplace") + more


def _made(kind: type[T], rows: Sequence[Row]) -> list[T]:
    """Rows as values of a class whose fields are named like the columns."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]  # All are dataclasses.
    return [kind(**{name: row[name] for name in names}) for row in rows]


def _groups(partitions: Sequence[DeliveryRow]) -> list[GroupRow]:
    found: dict[str, list[DeliveryRow]] = defaultdict(list)
    for row in partitions:
        found[row.group].append(row)
    groups = [
        GroupRow(
            group,
            sum(row.acquisitions for row in rows),
            sum(row.records for row in rows),
            sum(row.redelivered for row in rows),
            max(row.delivery_count_max for row in rows),
        )
        for group, rows in found.items()
    ]
    return sorted(groups, key=lambda row: (-row.redelivered, -row.acquisitions, row.group))


def time_bins(files: Sequence[FileRow]) -> tuple[int, int, int]:
    """Start, step (microseconds) and count of about `BINS` spans, on round times, that cover all files."""
    firsts = [row.first_us for row in files if row.first_us is not None]
    lasts = [row.last_us for row in files if row.last_us is not None]
    if not firsts or not lasts:
        return 0, 1, 1
    first, last = min(firsts), max(lasts)
    wanted = max(1, (last - first) // BINS)
    step = next((step for step in STEPS_US if step >= wanted), -(-wanted // DAY_US) * DAY_US)
    start = first - first % step
    return start, step, (last - start) // step + 1


def _timeline(counts: Sequence[Row], start_us: int, step_us: int, bins: int) -> Timeline:
    series: dict[str, list[int]] = {}
    for row in counts:
        if row["name"] is not None and row["bin"] is not None and 0 <= row["bin"] < bins:
            series.setdefault(row["name"], [0] * bins)[row["bin"]] += row["count"]
    ordered = sorted(series.items(), key=lambda item: (-sum(item[1]), item[0]))
    return Timeline(start_us, step_us, bins, dict(ordered))


def _in_micros(rows: DataFrame) -> DataFrame:
    """Times as microseconds since 1970, `x_us` for `x_ts`: PySpark would collect times in a zone, and not say which."""
    times = [each.name for each in rows.schema.fields if isinstance(each.dataType, TimestampType)]
    named = {name: "ts_us" if name == "ts" else f"{name.removesuffix('_ts')}_us" for name in times}
    return rows.withColumns({new: F.unix_micros(name) for name, new in named.items()})


def _file(row: Row) -> FileRow:
    return FileRow(row["file"], row["requests"], row["ok"], row["connections"], row["first_us"], row["last_us"])


def _latency(row: Row) -> LatencyRow:
    low, high = min(row["versions"]), max(row["versions"])
    versions = f"v{low}" if low == high else f"v{low}-v{high}"
    return LatencyRow(
        row["api_name"], versions, row["requests"], row["p50_us"], row["p95_us"], row["p99_us"], row["max_us"]
    )


def _delivery(row: Row) -> DeliveryRow:
    return DeliveryRow(
        row["group_id"] or "",
        row["topic"] or "?",
        row["partition"],
        row["acquisitions"],
        row["records"],
        row["redelivered"],
        row["delivery_count_max"],
    )


def _acks(rows: Sequence[Row]) -> list[AckRow]:
    taken: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
    refused: dict[tuple[str, str, str], int] = defaultdict(int)
    for row in rows:
        member = (row["group_id"] or "", row["member_id"] or "", row["client_id"] or "")
        kinds = taken[member]
        if row["refused"]:
            refused[member] += row["records"]
        else:
            kinds[row["ack_name"]] = row["records"]
    found = [AckRow(*member, records, refused[member]) for member, records in taken.items()]
    return sorted(found, key=lambda row: (row.group, -row.total, row.member))
