"""Share partitions over time as small multiples: where start and end lie, and what state the records between are in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeVar

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.capture.share_timeline import CAUSES
from kwire.spark import formats
from kwire.spark.markup import Markup, join, tag
from kwire.spark.share_panel import READ_CAUSES, STATES, Reading, SharePanel
from kwire.spark.svg import anchor, drawing, legend, percent

PANELS_MAX = 12
#: States are told in smaller steps than other plots have: locks come and go quickly.
FINER = 4
READINGS_MAX = 24
TOP, OFFSETS_HEIGHT, GAP, STATES_HEIGHT = 14, 56, 20, 72
FLOOR = TOP + OFFSETS_HEIGHT + GAP + STATES_HEIGHT
HEIGHT = FLOOR + 20

#: What the legend tells besides the states.
BAND = ("offsets from start to end", "band")
PEAK = ("acquired within the step", "peak")
READ = ("state begins anew", "read")
_PLACE = ("group_id", "topic_id", "partition")
T = TypeVar("T")


def panels(timeline: DataFrame, *, start_us: int, step_us: int, bins: int) -> list[SharePanel]:
    """The share partitions with the most transitions, at most `PANELS_MAX`, computed by Spark.

    Args: timeline: what `share_timeline` gives. start_us, step_us, bins: the spans of time, as in `Timeline`; they are
        cut into smaller ones.
    """
    finer = FINER if step_us % FINER == 0 else 1
    step_us, bins = step_us // finer, bins * finer
    chosen = timeline.groupBy(*_PLACE).agg(
        F.count("*").alias("transitions"),
        F.count_if("is_inferred").alias("inferred"),
        F.max("topic").alias("topic"),
        F.min_by("start_offset", "number").alias("begin"),
        F.max_by("start_offset", "number").alias("end"),
        F.max("delivery_count").alias("deliveries_max"),
    )
    places = chosen.orderBy(F.desc("transitions"), *(F.col(name) for name in _PLACE)).limit(PANELS_MAX).collect()
    wanted = F.struct(*_PLACE).isin(*(F.struct(*(F.lit(row[name]) for name in _PLACE)) for row in places))
    at = F.floor((F.unix_micros("ts") - start_us) / step_us).cast("int")
    state = F.struct("start_offset", "end_offset", *STATES)
    found = (timeline.filter(wanted) if places else timeline.limit(0)).groupBy(*_PLACE, at.alias("bin"))
    by_place: dict[tuple[object, ...], dict[int, Row]] = defaultdict(dict)
    told = found.agg(
        F.max_by(state, "number").alias("state"),
        F.max("acquired").alias("peak"),
        F.min_by("cause", F.when(F.col("cause").isin(*READ_CAUSES), F.col("number"))).alias("read"),
    )
    for row in told.collect():
        by_place[tuple(row[name] for name in _PLACE)][row["bin"]] = row
    spans = start_us, step_us, bins
    return [_panel_of(row, by_place[tuple(row[name] for name in _PLACE)], spans) for row in places]


def _panel_of(row: Row, by_bin: dict[int, Row], spans: tuple[int, int, int]) -> SharePanel:
    start_us, step_us, bins = spans
    series: dict[str, list[int]] = {name: [0] * bins for name in STATES}
    starts: list[int | None] = [None] * bins
    ends: list[int | None] = [None] * bins
    peaks = [0] * bins
    known: Row | None = None
    for index in range(bins):
        before = 0 if known is None else known["acquired"]
        if index in by_bin:
            known = by_bin[index]["state"]
        if known is not None:
            # Without a transition it stays as it was.
            peaks[index] = max(before, by_bin[index]["peak"]) if index in by_bin else known["acquired"]
            starts[index], ends[index] = known["start_offset"], known["end_offset"]
            for name in STATES:
                series[name][index] = known[name]
    readings = [Reading(at, each["read"]) for at, each in sorted(by_bin.items()) if each["read"] and 0 <= at < bins]
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
        readings=readings[:READINGS_MAX],
        begin=row["begin"] or 0,
        end=row["end"] or 0,
        deliveries_max=row["deliveries_max"] or 0,
        transitions=row["transitions"],
        inferred=row["inferred"],
    )


def multiples(found: Sequence[SharePanel]) -> Markup:
    """One small plot for each share partition, each on its own scale, on one axis of time."""
    names = [*STATES.items(), PEAK, BAND, *([READ] if any(one.readings for one in found) else [])]
    return join(tag("ul", *(tag("li", *_panel(one)) for one in found), class_="panels"), legend(names))


def _panel(one: SharePanel) -> tuple[Markup, Markup]:
    name = f"{formats.name(one.group)}: {formats.name(one.topic)}-{one.partition}"
    sums = [sum(values) for values in zip(*one.series.values(), strict=True)]
    top = max([*sums, *one.peaks, 1])
    moved = f"start {formats.count(one.begin)} to {formats.count(one.end)}"
    told = f"{moved}; at most {formats.plural(max(sums, default=0), 'record')} in flight"
    attempts = f"delivered up to {formats.plural(one.deliveries_max, 'time')}"
    head = tag("div", tag("span", name, class_="name"), tag("span", told, class_="value"), class_="label")
    parts = [*_offsets(one), *_states(one, top), *_readings(one), *_axis(one, len(sums))]
    return head, drawing(name, *parts, height=HEIGHT, description=f"{told}; {attempts}.")


def _offsets(one: SharePanel) -> Iterator[Markup]:
    """Start and end of the share partition, as the edges of a band."""
    known = [value for value in (*one.starts, *one.ends) if value is not None]
    low, high = min(known, default=0), max(known, default=0)
    scale = OFFSETS_HEIGHT / max(1, high - low)
    floor_y = float(TOP + OFFSETS_HEIGHT)
    yield tag("line", class_="grid", x1="0", x2="100%", y1=floor_y, y2=floor_y)
    yield tag("text", f"offsets {formats.count(low)} to {formats.count(high)}", x="0", y=TOP - 4)
    for first, last, (start, end) in _runs(list(zip(one.starts, one.ends, strict=True))):
        if start is None or end is None:
            continue
        place = _place(one, first, last)
        y = floor_y - (end - low) * scale
        height = max(2.0, (end - start) * scale)
        told = f"{_clock(one, first)}  start {formats.count(start)}, end {formats.count(end)}"
        yield tag("rect", tag("title", told), class_="mark band", y=min(y, floor_y - 2), height=height, **place)
        yield tag("rect", class_="edge", y=min(y + height, floor_y) - 1.5, height=1.5, **place)


def _states(one: SharePanel, top: int) -> Iterator[Markup]:
    ceiling = float(FLOOR - STATES_HEIGHT)
    for y in (ceiling, float(FLOOR)):
        yield tag("line", class_="grid", x1="0", x2="100%", y1=y, y2=y)
    yield tag("text", formats.plural(top, "record"), x="0", y=ceiling - 4)
    for first, last, peak in _runs(one.peaks):
        if peak:
            height = STATES_HEIGHT * peak / top
            told = tag("title", f"{_clock(one, first)}  at most acquired within the step: {formats.count(peak)}")
            yield tag("rect", told, class_="peak", y=FLOOR - height, height=height, **_place(one, first, last))
    floors = [float(FLOOR)] * len(one.peaks)
    for name, class_ in STATES.items():
        for first, last, (value, floor) in _runs(list(zip(one.series[name], floors, strict=True))):
            if not value:
                continue
            height = STATES_HEIGHT * value / top
            floors[first : last + 1] = [floor - height] * (last - first + 1)
            told = tag("title", f"{_clock(one, first)}  {name}: {formats.count(value)}")
            place = _place(one, first, last)
            yield tag("rect", told, class_=f"mark {class_}", y=floor - height, height=height, **place)


def _readings(one: SharePanel) -> Iterator[Markup]:
    """Where the state began anew: another leader has read it, or somebody has changed it."""
    for each in one.readings:
        x = percent(100 * each.bin / max(1, len(one.peaks)))
        told = tag("title", f"{_clock(one, each.bin)}  {CAUSES[each.cause]}")
        for low, high in ((TOP, TOP + OFFSETS_HEIGHT), (FLOOR - STATES_HEIGHT, FLOOR)):
            yield tag("line", told, class_="read", x1=x, x2=x, y1=low, y2=high)


def _place(one: SharePanel, first: int, last: int) -> dict[str, str]:
    bins = max(1, len(one.peaks))
    return {"x": percent(100 * first / bins), "width": percent(100 * (last - first + 1) / bins)}


def _runs(values: Sequence[T]) -> Iterator[tuple[int, int, T]]:
    """First and last step of each run of one value: a page has no rectangle too many."""
    begin = 0
    for index, value in enumerate(values):
        if index + 1 == len(values) or values[index + 1] != value:
            yield begin, index, value
            begin = index + 1


def _axis(one: SharePanel, bins: int) -> list[Markup]:
    return [
        tag("text", _clock(one, tick), x=x, y=FLOOR + 14, text_anchor=anchor(index, 2))
        for index, (tick, x) in enumerate(((0, "0%"), (bins, "100%")))
    ]


def _clock(one: SharePanel, index: int) -> str:
    return formats.axis_label(one.start_us + index * one.step_us, start_us=one.start_us, step_us=one.step_us)
