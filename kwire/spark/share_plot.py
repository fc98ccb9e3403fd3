"""Share partitions over time as small multiples: how many of their records in flight are in which state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark import formats
from kwire.spark.markup import Markup, join, tag
from kwire.spark.svg import anchor, drawing, legend, percent

PANELS_MAX = 12
TOP, PLOT_HEIGHT = 14, 72
HEIGHT = TOP + PLOT_HEIGHT + 20

#: What is drawn, from below, with the class that gives it its colour.
STATES = {"acquired": "c0", "available again": "c1", "settled, waiting for the start": "c2"}
_PLACE = ("group_id", "topic_id", "partition")


@dataclass(frozen=True, slots=True)
class SharePanel:
    """One share partition; each series of `STATES` has a number of records for each span of `step_us`.

    begin, end: its start offset with the first and the last transition. deliveries_max: the highest delivery count.
    """

    group: str
    topic: str
    partition: int
    start_us: int
    step_us: int
    series: dict[str, list[int]]
    begin: int
    end: int
    deliveries_max: int


def panels(timeline: DataFrame, *, start_us: int, step_us: int, bins: int) -> list[SharePanel]:
    """The share partitions with the most transitions, at most `PANELS_MAX`, computed by Spark.

    Args: timeline: what `share_timeline` gives. start_us, step_us, bins: the spans of time, as in `Timeline`.
    """
    chosen = timeline.groupBy(*_PLACE).agg(
        F.count("*").alias("transitions"),
        F.max("topic").alias("topic"),
        F.min_by("start_offset", "number").alias("begin"),
        F.max_by("start_offset", "number").alias("end"),
        F.max("delivery_count").alias("deliveries_max"),
    )
    places = chosen.orderBy(F.desc("transitions"), *(F.col(name) for name in _PLACE)).limit(PANELS_MAX).collect()
    wanted = F.struct(*_PLACE).isin(*(F.struct(*(F.lit(row[name]) for name in _PLACE)) for row in places))
    at = F.floor((F.unix_micros("ts") - start_us) / step_us).cast("int")
    state = F.struct("start_offset", "end_offset", "available", "acquired")
    found = (timeline.filter(wanted) if places else timeline.limit(0)).groupBy(*_PLACE, at.alias("bin"))
    by_place: dict[tuple[object, ...], dict[int, Row]] = defaultdict(dict)
    for row in found.agg(F.max_by(state, "number").alias("state")).collect():
        by_place[tuple(row[name] for name in _PLACE)][row["bin"]] = row["state"]
    return [
        SharePanel(
            group=row["group_id"] or "",
            topic=row["topic"] or row["topic_id"] or "",
            partition=row["partition"],
            start_us=start_us,
            step_us=step_us,
            series=_series(by_place[tuple(row[name] for name in _PLACE)], bins),
            begin=row["begin"] or 0,
            end=row["end"] or 0,
            deliveries_max=row["deliveries_max"] or 0,
        )
        for row in places
    ]


def _series(by_bin: dict[int, Row], bins: int) -> dict[str, list[int]]:
    """Each state at the end of each span; without a transition it stays as it was."""
    acquired, available, settled = ([0] * bins for _ in STATES)
    known: Row | None = None
    for index in range(bins):
        known = by_bin.get(index, known)
        if known is not None:
            acquired[index], available[index] = known["acquired"], known["available"]
            span = (known["end_offset"] or 0) - (known["start_offset"] or 0)
            settled[index] = max(0, span - acquired[index] - available[index])
    return dict(zip(STATES, (acquired, available, settled), strict=True))


def multiples(found: Sequence[SharePanel]) -> Markup:
    """One small plot for each share partition, each on its own scale, on one axis of time."""
    return join(tag("ul", *(tag("li", *_panel(one)) for one in found), class_="panels"), legend(list(STATES.items())))


def _panel(one: SharePanel) -> tuple[Markup, Markup]:
    name = f"{formats.name(one.group)}: {formats.name(one.topic)}-{one.partition}"
    sums = [sum(values) for values in zip(*one.series.values(), strict=True)]
    top = max(sums, default=0) or 1
    moved = f"start {formats.count(one.begin)} to {formats.count(one.end)}"
    told = f"{moved}; at most {formats.plural(max(sums, default=0), 'record')} in flight"
    head = tag("div", tag("span", name, class_="name"), tag("span", told, class_="value"), class_="label")
    attempts = f"delivered up to {formats.plural(one.deliveries_max, 'time')}"
    return head, drawing(
        name, *_marks(one, top), *_axis(one, len(sums)), height=HEIGHT, description=f"{told}; {attempts}."
    )


def _marks(one: SharePanel, top: int) -> list[Markup]:
    floor_y = float(TOP + PLOT_HEIGHT)
    parts = [tag("line", class_="grid", x1="0", x2="100%", y1=y, y2=y) for y in (float(TOP), floor_y)]
    parts.append(tag("text", formats.count(top), x="0", y=TOP - 4))
    bins = max(1, len(next(iter(one.series.values()))))
    floors = [floor_y] * bins
    for name, class_ in STATES.items():
        for first, last, value in _stretches(one.series[name], floors):
            height = PLOT_HEIGHT * value / top
            y = floors[first] - height
            floors[first : last + 1] = [y] * (last - first + 1)
            told = tag("title", f"{_clock(one, first)}  {name}: {formats.count(value)}")
            place = {"x": percent(100 * first / bins), "width": percent(100 * (last - first + 1) / bins)}
            parts.append(tag("rect", told, class_=f"mark {class_}", y=y, height=height, **place))
    return parts


def _stretches(values: Sequence[int], floors: Sequence[float]) -> list[tuple[int, int, int]]:
    """First and last span of each stretch of one value on one floor: a page has no rectangle too many."""
    found: list[tuple[int, int, int]] = []
    for index, value in enumerate(values):
        if found and found[-1][1] == index - 1 and found[-1][2] == value and floors[index] == floors[index - 1]:
            found[-1] = (found[-1][0], index, value)
        elif value:
            found.append((index, index, value))
    return found


def _axis(one: SharePanel, bins: int) -> list[Markup]:
    return [
        tag("text", _clock(one, tick), x=x, y=TOP + PLOT_HEIGHT + 14, text_anchor=anchor(index, 2))
        for index, (tick, x) in enumerate(((0, "0%"), (bins, "100%")))
    ]


def _clock(one: SharePanel, index: int) -> str:
    return formats.axis_label(one.start_us + index * one.step_us, start_us=one.start_us, step_us=one.step_us)
