"""From capture files to a `Report`: the only place where the page's numbers are computed, all of them by Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark import analyses
from kwire.spark.model import AckRow, DeliveryRow, ErrorRow, FileRow, GroupRow, LatencyRow, Report, Timeline

Progress = Callable[[str], None]

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


def gather(
    spark: SparkSession, files: Sequence[str], *, options: Mapping[str, str] | None, progress: Progress
) -> Report:
    """Read the captures and compute what the report says.

    Args: options: options of `kafka_capture` for all levels, as ports or edition. progress: is told each step.
    """

    def level(name: str) -> DataFrame:
        """The rows of one level."""
        reader = spark.read.format("kafka_capture").option("level", name).option("bodies", "false")
        # Several analyses ask the same rows, and decoding is what costs.
        return reader.options(**dict(options or {})).load(list(files)).drop("body_request", "body_response").persist()

    progress(f"decoding {len(files)} capture file{'s' if len(files) != 1 else ''}")
    messages = level("messages")
    rows = [_file(row) for row in _in_micros(analyses.overview(messages)).collect()]
    rows.sort(key=lambda row: files.index(row.name) if row.name in files else 0)
    progress("latency, traffic and errors")
    facts = _messages(messages, rows)
    progress("share-group deliveries and acknowledgements")
    shares = _shares(level("share_acquired"), level("share_acks"), rows)
    spark.catalog.clearCache()
    return Report(files=rows, **facts, **shares)


def _messages(messages: DataFrame, files: list[FileRow]) -> dict[str, Any]:
    start_us, step_us, bins = time_bins(files)
    ends = messages.agg(F.count_distinct("client_id"), F.count_distinct("file", "conn_id", "stream_epoch")).collect()[0]
    traffic = analyses.traffic(messages, start_us=start_us, step_us=step_us)
    over_time = analyses.errors_over_time(messages, start_us=start_us, step_us=step_us)
    errors = [_error(row) for row in _in_micros(analyses.errors(messages)).collect()]
    errors.sort(key=lambda row: (-row.responses, row.api, row.error))
    return {
        "statuses": {row["status"]: row["messages"] for row in analyses.statuses(messages).collect()},
        "clients": ends[0],
        "connections": ends[1],
        "latency": sorted(map(_latency, analyses.latency(messages).collect()), key=lambda row: (-row.p99_us, row.api)),
        "traffic": _timeline(traffic, start_us, step_us, bins),
        "errors": _timeline(over_time, start_us, step_us, bins),
        "error_rows": errors[:ROWS_MAX],
        "error_responses": sum(row.responses for row in errors),
    }


def _shares(acquired: DataFrame, acks: DataFrame, files: list[FileRow]) -> dict[str, Any]:
    start_us, step_us, bins = time_bins(files)
    over_time = analyses.deliveries_over_time(acquired, start_us=start_us, step_us=step_us)
    records = analyses.outcomes(acquired, acks).persist()
    partitions = [_delivery(row) for row in analyses.redeliveries(records).collect()]
    partitions.sort(key=lambda row: (-row.redelivered, -row.acquisitions, row.group, row.topic, row.partition))
    by_count: dict[str, dict[int, int]] = defaultdict(dict)
    for row in analyses.deliveries_by_count(acquired).orderBy("group_id", "delivery_count").collect():
        by_count[row["group_id"] or ""][row["delivery_count"]] = row["records"]
    fates: dict[str, dict[str, int]] = defaultdict(dict)
    for row in records.groupBy("group_id", "outcome").count().collect():
        fates[row["group_id"] or ""][row["outcome"]] = row["count"]
    members = _acks(analyses.acknowledgements(acks).collect())
    return {
        "share_traffic": _timeline(over_time, start_us, step_us, bins),
        "groups": _groups(partitions),
        "deliveries": partitions[:ROWS_MAX],
        "delivery_counts": dict(by_count),
        "outcomes": dict(fates),
        "acks": members[:ROWS_MAX],
        "refused_acks": sum(row.refused for row in members),
        "omitted": {"deliveries": len(partitions[ROWS_MAX:]), "acks": len(members[ROWS_MAX:])},
    }


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


def _timeline(counts: DataFrame, start_us: int, step_us: int, bins: int) -> Timeline:
    series: dict[str, list[int]] = {}
    for row in counts.collect():
        if row["name"] is not None and 0 <= row["bin"] < bins:
            series.setdefault(row["name"], [0] * bins)[row["bin"]] += row["count"]
    ordered = sorted(series.items(), key=lambda item: (-sum(item[1]), item[0]))
    return Timeline(start_us, step_us, bins, dict(ordered))


def _in_micros(rows: DataFrame) -> DataFrame:
    """`first_ts` and `last_ts` as microseconds since 1970: PySpark would collect times in a zone, and not say which."""
    return rows.withColumns({"first_us": F.unix_micros("first_ts"), "last_us": F.unix_micros("last_ts")})


def _file(row: Row) -> FileRow:
    return FileRow(row["file"], row["requests"], row["ok"], row["connections"], row["first_us"], row["last_us"])


def _latency(row: Row) -> LatencyRow:
    low, high = min(row["versions"]), max(row["versions"])
    versions = f"v{low}" if low == high else f"v{low}-v{high}"
    return LatencyRow(
        row["api_name"], versions, row["requests"], row["p50_us"], row["p95_us"], row["p99_us"], row["max_us"]
    )


def _error(row: Row) -> ErrorRow:
    return ErrorRow(
        row["api_name"], row["error_name"] or "?", row["responses"], row["first_us"] or 0, row["last_us"] or 0
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
