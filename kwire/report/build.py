"""Build a `Report` from capture files: all numbers of the page are computed here, by Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import MISSING, fields, replace
from typing import Any, TypeVar

from pyspark.sql import Row, SparkSession

from kwire.report import formats, levels, round_times, row_types, tables
from kwire.report.collect_tables import ROWS_MAX, collect_tables, small_capture_settings, with_micros, write_tables
from kwire.report.model import Report, Timeline
from kwire.report.share_panels import compute_panels
from kwire.spark import analyses

Progress = Callable[[str], None]
Tables = Mapping[str, list[Row]]
T = TypeVar("T")

BINS = 48


def build_report(
    spark: SparkSession,
    files: Sequence[str],
    *,
    options: Mapping[str, str] | None,
    progress: Progress,
    parquet: str | None = None,
    decoded: levels.Decoded | None = None,
) -> Report:
    """Read the captures and compute the report.

    Args: options: options of `kafka_capture` for all levels, as ports or edition. progress: called with the name of
        each step. parquet: a folder to write the tables to; it must not contain any of them yet. decoded: the result
        of `levels.decode_levels`, if it was called for these captures.
    """
    with small_capture_settings(spark, files):
        if decoded is None:
            progress(f"decoding {formats.plural(len(files), 'capture file')}")
        with closing(levels.read_levels(spark, files, options, decoded)) as frames:
            return _build_from_levels(frames, files, progress=progress, parquet=parquet)


def _build_from_levels(
    frames: levels.Levels, files: Sequence[str], *, progress: Progress, parquet: str | None
) -> Report:
    overview = with_micros(analyses.overview(frames.messages)).collect()
    rows = [_file_row(row) for row in overview]
    rows.sort(key=lambda row: files.index(row.name) if row.name in files else 0)
    spans = start_us, step_us, _ = time_bins(rows)
    has_shares = any(row["share_requests"] for row in overview)
    table_frames = tables.build_tables(frames, start_us=start_us, step_us=step_us, has_shares=has_shares)
    progress(f"computing {formats.plural(len(table_frames), 'table')}")
    with ThreadPoolExecutor(1) as pool:
        panels = pool.submit(lambda: compute_panels(table_frames["share_timeline"]) if has_shares else [])
        table_rows, omitted = collect_tables(table_frames)
    if parquet is not None:
        progress(f"writing {formats.plural(len(table_frames), 'table')} to {parquet}")
        write_tables(table_frames, parquet)
    for table in table_frames.values():
        table.unpersist()
    shares = _share_fields(table_rows, spans, omitted) if has_shares else {}
    other_fields = {**_message_fields(table_rows, spans), **_table_fields(table_rows)}
    return Report(files=rows, **other_fields, **shares, panels=panels.result(), omitted=omitted)


def _message_fields(tables: Tables, spans: tuple[int, int, int]) -> dict[str, Any]:
    totals = tables["totals"][0]
    return {
        "statuses": {row["status"]: row["messages"] for row in tables["statuses"]},
        **{name: totals[name] for name in ("clients", "connections", "error_responses", "req_bytes", "resp_bytes")},
        "latency": sorted(map(_latency_row, tables["latency"]), key=lambda row: (-row.p99_us, row.api)),
        "traffic": _timeline(tables["traffic"], *spans),
        "errors": _timeline(tables["errors_over_time"], *spans),
        "connection_churn": _timeline(tables["connection_churn"], *spans),
        "connection_problems": tables["connection_problems"][0].asDict(),
    }


def _share_fields(tables: Tables, spans: tuple[int, int, int], omitted: dict[str, int]) -> dict[str, Any]:
    """The report's fields about share groups; adds the numbers of rows omitted here to `omitted`."""
    partitions = [_delivery_row(row) for row in tables["redeliveries"]]
    partitions.sort(key=lambda row: (-row.redelivered, -row.acquisitions, row.group, row.topic, row.partition))
    by_count: dict[str, dict[int, int]] = defaultdict(dict)
    for row in sorted(tables["deliveries_by_count"], key=lambda row: row["delivery_count"] or 0):
        by_count[row["group_id"] or ""][row["delivery_count"]] = row["records"]
    outcomes: dict[str, dict[str, int]] = defaultdict(dict)
    for row in tables["outcome_counts"]:
        outcomes[row["group_id"] or ""][row["outcome"]] = row["records"]
    members = _acknowledgement_rows(tables["acknowledgements"])
    left = {"redeliveries": len(partitions) - ROWS_MAX, "acknowledgements": len(members) - ROWS_MAX}
    omitted.update({name: count for name, count in left.items() if count > 0})
    return {
        "share_traffic": _timeline(tables["deliveries_over_time"], *spans),
        "groups": _group_rows(partitions),
        "deliveries": partitions[:ROWS_MAX],
        "delivery_counts": dict(by_count),
        "outcomes": dict(outcomes),
        "acks": members[:ROWS_MAX],
        "refused_acks": sum(row.refused for row in members),
    }


def _table_fields(tables: Tables) -> dict[str, Any]:
    """The report's lists of rows; those of share groups are empty without share groups."""
    return {
        "slowest": _rows_of(row_types.SlowRow, tables["slowest"]),
        "error_rows": _rows_of(row_types.ErrorRow, tables["errors"]),
        "poison": _poison_rows(tables.get("poison_records", []), tables.get("contents", [])),
        "dead_letters": _rows_of(row_types.DeadLetterRow, tables.get("dead_letters", [])),
        "delivery_histories": _rows_of(row_types.RecordDeliveryRow, tables.get("delivery_histories", [])),
        "locks": _rows_of(row_types.LockRow, tables.get("lock_times", [])),
        "lock_use": _rows_of(row_types.LockUseRow, tables.get("lock_use", [])),
        "client_rows": _rows_of(row_types.ClientRow, tables["clients"]),
        "versions": _rows_of(row_types.VersionRow, tables["client_versions"]),
        "batches": _rows_of(row_types.BatchRow, tables["batch_sizes"]),
        "connection_rows": _rows_of(row_types.ConnectionRow, tables["connections"]),
        "requests_in_flight": _rows_of(row_types.InFlightRow, tables["requests_in_flight"]),
        "steps": _rows_of(row_types.StepRow, tables["membership"]),
        "rebalances": _rows_of(row_types.RebalanceRow, tables["rebalances"]),
        "rules": sorted(_rows_of(row_types.RuleRow, tables["breaches"]), key=lambda row: (-row.breaches, row.rule)),
        "breaches": _rows_of(row_types.BreachRow, tables["conformance"]),
    }


def _poison_rows(rows: Sequence[Row], contents: Sequence[Row]) -> list[row_types.PoisonRow]:
    """The poison records, with their contents if these were requested."""
    content_by_record = {(row["topic"], row["partition"], row["offset"]): row for row in contents}
    poison_rows = _rows_of(row_types.PoisonRow, rows)
    for index, row in enumerate(poison_rows):
        if content := content_by_record.get((row.topic, row.partition, row.offset)):
            key, value = (_format_content(content[name], content[f"{name}_size"]) for name in ("key", "value"))
            poison_rows[index] = replace(row, key=key, value=value)
    return poison_rows


def _format_content(data: bytes | None, size: int | None) -> str:
    if data is None:
        return "null"
    more = f"\N{HORIZONTAL ELLIPSIS} ({size:,} bytes)" if size is not None and size > len(data) else ""
    return bytes(data).decode("utf-8", "backslashreplace") + more


def _rows_of(kind: type[T], rows: Sequence[Row]) -> list[T]:
    """Rows as instances of a dataclass whose fields are named like the columns; fields with a default stay unset."""
    all_fields = fields(kind)  # type: ignore[arg-type]  # All are dataclasses.
    names = [column.name for column in all_fields if column.default is MISSING]
    return [kind(**{name: row[name] for name in names}) for row in rows]


def _group_rows(partitions: Sequence[row_types.DeliveryRow]) -> list[row_types.GroupRow]:
    rows_by_group: dict[str, list[row_types.DeliveryRow]] = defaultdict(list)
    for row in partitions:
        rows_by_group[row.group].append(row)
    groups = []
    for group, rows in rows_by_group.items():
        acquisitions, records = sum(row.acquisitions for row in rows), sum(row.records for row in rows)
        redelivered, highest_count = sum(row.redelivered for row in rows), max(row.delivery_count_max for row in rows)
        groups.append(row_types.GroupRow(group, acquisitions, records, redelivered, highest_count))
    return sorted(groups, key=lambda row: (-row.redelivered, -row.acquisitions, row.group))


def time_bins(files: Sequence[row_types.FileRow]) -> tuple[int, int, int]:
    """Start and length (microseconds) and number of about `BINS` time bins at round times that cover all files."""
    span = row_types.span_of_files(files)
    if span is None:
        return 0, 1, 1
    return round_times.time_bins(*span, BINS)


def _timeline(counts: Sequence[Row], start_us: int, step_us: int, bins: int) -> Timeline:
    series: dict[str, list[int]] = {}
    for row in counts:
        if row["name"] is not None and row["bin"] is not None and 0 <= row["bin"] < bins:
            series.setdefault(row["name"], [0] * bins)[row["bin"]] += row["count"]
    ordered = sorted(series.items(), key=lambda item: (-sum(item[1]), item[0]))
    return Timeline(start_us, step_us, bins, dict(ordered))


def _file_row(row: Row) -> row_types.FileRow:
    return row_types.FileRow(row.file, row.requests, row.ok, row.connections, row.first_us, row.last_us)


def _latency_row(row: Row) -> row_types.LatencyRow:
    low, high = min(row.versions), max(row.versions)
    versions = f"v{low}" if low == high else f"v{low}-v{high}"
    return row_types.LatencyRow(row.api_name, versions, row.requests, row.p50_us, row.p95_us, row.p99_us, row.max_us)


def _delivery_row(row: Row) -> row_types.DeliveryRow:
    counts = (row.acquisitions, row.records, row.redelivered, row.delivery_count_max)
    return row_types.DeliveryRow(row.group_id or "", row.topic or "?", row.partition, *counts)


def _acknowledgement_rows(rows: Sequence[Row]) -> list[row_types.AckRow]:
    accepted: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
    refused: dict[tuple[str, str, str], int] = defaultdict(int)
    for row in rows:
        member = (row.group_id or "", row.member_id or "", row.client_id or "")
        accepted_by_kind = accepted[member]
        if row.refused:
            refused[member] += row.records
        else:
            accepted_by_kind[row.ack_name] = row.records
    acknowledgement_rows = [row_types.AckRow(*member, records, refused[member]) for member, records in accepted.items()]
    return sorted(acknowledgement_rows, key=lambda row: (row.group, -row.total, row.member))
