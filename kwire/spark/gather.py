"""From capture files to a `Report`: the only place where the page's numbers are computed, all of them by Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from pyspark.sql import DataFrame, Row, SparkSession

from kwire.spark import analyses, share_plot, tables
from kwire.spark.collecting import ROWS_MAX, collect, in_micros, tuned, write
from kwire.spark.model import Report, Timeline
from kwire.spark.row_types import (
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
    RuleRow,
    SlowRow,
    StepRow,
    VersionRow,
)
from kwire.spark.share_panel import SharePanel

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
    with tuned(spark, files):
        progress(f"decoding {len(files)} capture file{'s' if len(files) != 1 else ''}")
        levels = tables.read(spark, files, options)
        overview = in_micros(analyses.overview(levels.messages)).collect()
        rows = [_file(row) for row in overview]
        rows.sort(key=lambda row: files.index(row.name) if row.name in files else 0)
        spans = start_us, step_us, _ = time_bins(rows)
        has_shares = any(row["share_requests"] for row in overview)
        made = tables.tables(levels, start_us=start_us, step_us=step_us, has_shares=has_shares)
        progress(f"computing {len(made)} tables")
        found, omitted = collect(made)
        panels = _panels(made["share_timeline"], spans) if has_shares else []
        if parquet is not None:
            progress(f"writing {len(made)} tables to {parquet}")
            write(made, parquet)
        levels.release()
        for table in made.values():
            table.unpersist()
    shares = _shares(found, spans, omitted) if has_shares else {}
    return Report(files=rows, **_messages(found, spans), **shares, **_lists(found), panels=panels, omitted=omitted)


def _panels(timeline: DataFrame, spans: tuple[int, int, int]) -> list[SharePanel]:
    start_us, step_us, bins = spans
    return share_plot.panels(timeline, start_us=start_us, step_us=step_us, bins=bins)


def _messages(found: Mapping[str, list[Row]], spans: tuple[int, int, int]) -> dict[str, Any]:
    totals = found["totals"][0]
    return {
        "statuses": {row["status"]: row["messages"] for row in found["statuses"]},
        **{name: totals[name] for name in ("clients", "connections", "error_responses", "req_bytes", "resp_bytes")},
        "latency": sorted(map(_latency, found["latency"]), key=lambda row: (-row.p99_us, row.api)),
        "traffic": _timeline(found["traffic"], *spans),
        "errors": _timeline(found["errors_over_time"], *spans),
        "churn": _timeline(found["churn"], *spans),
        "troubles": found["troubles"][0].asDict(),
    }


def _shares(found: Mapping[str, list[Row]], spans: tuple[int, int, int], omitted: dict[str, int]) -> dict[str, Any]:
    """What is told of share groups; what `omitted` lacks of rows that are left out is added to it."""
    partitions = [_delivery(row) for row in found["redeliveries"]]
    partitions.sort(key=lambda row: (-row.redelivered, -row.acquisitions, row.group, row.topic, row.partition))
    by_count: dict[str, dict[int, int]] = defaultdict(dict)
    for row in sorted(found["deliveries_by_count"], key=lambda row: row["delivery_count"] or 0):
        by_count[row["group_id"] or ""][row["delivery_count"]] = row["records"]
    fates: dict[str, dict[str, int]] = defaultdict(dict)
    for row in found["fates"]:
        fates[row["group_id"] or ""][row["outcome"]] = row["records"]
    members = _acks(found["acknowledgements"])
    left = {"redeliveries": len(partitions) - ROWS_MAX, "acknowledgements": len(members) - ROWS_MAX}
    omitted.update({name: count for name, count in left.items() if count > 0})
    return {
        "share_traffic": _timeline(found["deliveries_over_time"], *spans),
        "groups": _groups(partitions),
        "deliveries": partitions[:ROWS_MAX],
        "delivery_counts": dict(by_count),
        "outcomes": dict(fates),
        "acks": members[:ROWS_MAX],
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
