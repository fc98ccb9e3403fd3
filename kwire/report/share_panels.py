"""Computation of the states of share partitions over time, by Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.capture.share_timeline.events import OPEN_ENDED
from kwire.report import round_times
from kwire.report.model import Reading, SharePanel
from kwire.report.plots.share_partitions import STATES
from kwire.spark.analyses.common import time_bin

PANELS_MAX = 12
#: More steps than time bins in other plots: acquisition locks are short.
STEPS = 192
READINGS_MAX = 24
_PARTITION_KEY = ("group_id", "topic_id", "partition")
_CAUSES = sorted(OPEN_ENDED)


def compute_panels(timeline: DataFrame) -> list[SharePanel]:
    """The share partitions with the most transitions, at most `PANELS_MAX`, computed by Spark.

    Their steps have one length, and extend from the first transition of any of them to the last.

    Args: timeline: the result of `share_timeline`.
    """
    # Only numbers are aggregated: with text among them Spark sorts all rows. A topic id has one name.
    partitions = timeline.groupBy(*_PARTITION_KEY, "topic").agg(
        F.count("*").alias("transitions"),
        F.count_if("is_inferred").alias("inferred"),
        F.min_by("start_offset", "number").alias("begin"),
        F.max_by("start_offset", "number").alias("end"),
        F.max("delivery_count").alias("deliveries_max"),
        F.unix_micros(F.min("ts")).alias("first_us"),
        F.unix_micros(F.max("ts")).alias("last_us"),
    )
    panel_rows = partitions.orderBy(F.desc("transitions"), *_PARTITION_KEY).limit(PANELS_MAX).collect()
    panel_keys = [F.struct(*(F.lit(row[name]) for name in _PARTITION_KEY)) for row in panel_rows]
    is_on_panel = F.struct(*_PARTITION_KEY).isin(*panel_keys)
    time_bins = start_us, step_us, _ = _time_bins(panel_rows)
    bin_column = time_bin(F.col("ts"), start_us, step_us)
    binned = (timeline.filter(is_on_panel) if panel_rows else timeline.limit(0)).groupBy(*_PARTITION_KEY, bin_column)
    cause = F.nullif(F.array_position(F.array(*map(F.lit, _CAUSES)), F.col("cause")), F.lit(0))
    rows_by_partition: dict[tuple[object, ...], dict[int, Row]] = defaultdict(dict)
    states = binned.agg(
        *(F.max_by(name, "number").alias(name) for name in ("start_offset", "end_offset", *STATES)),
        F.max("acquired").alias("peak"),
        F.min_by(cause, F.when(cause.isNotNull(), F.col("number"))).alias("read"),
    )
    for row in states.filter(F.col("bin").isNotNull()).collect():
        rows_by_partition[_partition_key(row)][row["bin"]] = row
    return [_build_panel(row, rows_by_partition[_partition_key(row)], time_bins) for row in panel_rows]


def _time_bins(rows: Sequence[Row]) -> tuple[int, int, int]:
    times = [row[name] for row in rows for name in ("first_us", "last_us") if row[name] is not None]
    return round_times.time_bins(min(times, default=0), max(times, default=0), STEPS)


def _partition_key(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in _PARTITION_KEY)


def _build_panel(row: Row, by_bin: dict[int, Row], time_bins: tuple[int, int, int]) -> SharePanel:
    start_us, step_us, bins = time_bins
    series = {name: [0] * bins for name in STATES}
    starts: list[int | None] = [None] * bins
    ends: list[int | None] = [None] * bins
    peaks = [0] * bins
    last_state: Row | None = None
    for index in range(bins):
        acquired_before = 0 if last_state is None else last_state["acquired"]
        if index in by_bin:
            last_state = by_bin[index]
        if last_state is not None:
            # Without a transition the state is unchanged.
            peaks[index] = max(acquired_before, by_bin[index]["peak"]) if index in by_bin else last_state["acquired"]
            starts[index], ends[index] = last_state["start_offset"], last_state["end_offset"]
            for name in STATES:
                series[name][index] = last_state[name]
    reads = [(step, state["read"]) for step, state in sorted(by_bin.items()) if 0 <= step < bins and state["read"]]
    return SharePanel(
        group=row["group_id"] or "",
        topic=row["topic"] or row["topic_id"] or "",
        partition=row["partition"],
        start_us=start_us,
        step_us=step_us,
        series=series,
        peaks=peaks,
        starts=starts,
        ends=ends,
        readings=[Reading(step, _CAUSES[number - 1]) for step, number in reads[:READINGS_MAX]],
        begin=row["begin"] or 0,
        end=row["end"] or 0,
        deliveries_max=row["deliveries_max"] or 0,
        transitions=row["transitions"],
        inferred=row["inferred"],
    )
