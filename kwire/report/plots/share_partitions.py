"""Plots of share partitions over time, one small plot each: start and end offset, and the states of the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from kwire.capture.share_timeline.events import CAUSES
from kwire.report import formats
from kwire.report.colours import class_of
from kwire.report.markup import Markup, join, tag
from kwire.report.model import SharePanel
from kwire.report.plots.bars import labelled_row
from kwire.report.plots.svg import draw_legend, draw_svg, percent
from kwire.report.plots.time_axis import TimeScale

#: The plotted states from bottom to top, with the CSS class of their colour.
STATES = {
    "acquired": class_of("acquired"),
    "available": class_of("available"),
    "acknowledged": class_of("accepted"),
    "archived": class_of("archived"),
}
TOP, OFFSETS_HEIGHT, GAP, STATES_HEIGHT = 14, 56, 20, 72
FLOOR = TOP + OFFSETS_HEIGHT + GAP + STATES_HEIGHT
HEIGHT = FLOOR + 20

#: Entries of the legend other than the states.
BAND = ("offsets from start to end", f"{class_of('offsets')} band")
PEAK = ("most acquired within the step", f"{class_of('acquired')} peak")
READ = ("state is read or reset", f"{class_of('state-read')} read")
T = TypeVar("T")


def plot_share_partitions(panels: Sequence[SharePanel]) -> Markup:
    """One small plot for each share partition, each with its own y scale, on a common time axis."""
    names = [*STATES.items(), PEAK, BAND, *([READ] if any(panel.readings for panel in panels) else [])]
    # Two columns, where three would leave a part of the last row empty.
    columns = "panels in-two" if len(panels) % 3 and len(panels) % 2 == 0 else "panels"
    return join(tag("ul", *map(_draw_panel, panels), class_=columns), draw_legend(names))


def _draw_panel(panel: SharePanel) -> Markup:
    name = f"{formats.name(panel.group)}: {formats.name(panel.topic)}-{panel.partition}"
    sums = [sum(values) for values in zip(*panel.series.values(), strict=True)]
    # The states are those at the end of each step, and more records may be acquired within one.
    in_flight = max([*sums, *panel.peaks], default=0)
    offsets = f"start {formats.count(panel.begin)} to {formats.count(panel.end)}"
    value = f"{offsets}; at most {formats.plural(in_flight, 'record')} in flight"
    attempts = f"highest delivery count {formats.count(panel.deliveries_max)}"
    parts = [*_time_axis(panel), *_offsets(panel), *_states(panel, max(in_flight, 1)), *_readings(panel)]
    return labelled_row(name, value, draw_svg(name, *parts, height=HEIGHT, description=f"{value}; {attempts}."))


def _offsets(panel: SharePanel) -> Iterator[Markup]:
    """Start and end of the share partition, as the edges of a band."""
    # The first start may have been passed within the first step.
    offsets = [value for value in (panel.begin, *panel.starts, *panel.ends) if value is not None]
    low, high = min(offsets), max(offsets)
    scale = OFFSETS_HEIGHT / max(1, high - low)
    floor_y = float(TOP + OFFSETS_HEIGHT)
    yield tag("line", class_="grid", x1="0", x2="100%", y1=floor_y, y2=floor_y)
    yield tag("text", f"offsets {formats.count(low)} to {formats.count(high)}", x="0", y=TOP - 4)
    for first, last, (start, end) in _value_runs(list(zip(panel.starts, panel.ends, strict=True))):
        if start is None or end is None:
            continue
        x_range = _x_range(panel, first, last)
        y = floor_y - (end - low) * scale
        height = max(2.0, (end - start) * scale)
        tooltip = f"{_step_time(panel, first)}  start {formats.count(start)}, end {formats.count(end)}"
        yield tag(
            "rect", tag("title", tooltip), class_=f"mark {BAND[1]}", y=min(y, floor_y - 2), height=height, **x_range
        )
        yield tag("rect", class_=class_of("offsets"), y=min(y + height, floor_y) - 1.5, height=1.5, **x_range)


def _states(panel: SharePanel, top: int) -> Iterator[Markup]:
    ceiling = float(FLOOR - STATES_HEIGHT)
    for y in (ceiling, float(FLOOR)):
        yield tag("line", class_="grid", x1="0", x2="100%", y1=y, y2=y)
    yield tag("text", formats.plural(top, "record"), x="0", y=ceiling - 4)
    for first, last, peak in _value_runs(panel.peaks):
        if peak:
            height = STATES_HEIGHT * peak / top
            tooltip = tag(
                "title", f"{_step_time(panel, first)}  at most acquired within the step: {formats.count(peak)}"
            )
            yield tag("rect", tooltip, class_=PEAK[1], y=FLOOR - height, height=height, **_x_range(panel, first, last))
    floors = [float(FLOOR)] * len(panel.peaks)
    for name, class_ in STATES.items():
        for first, last, (value, floor) in _value_runs(list(zip(panel.series[name], floors, strict=True))):
            if not value:
                continue
            height = STATES_HEIGHT * value / top
            floors[first : last + 1] = [floor - height] * (last - first + 1)
            tooltip = tag("title", f"{_step_time(panel, first)}  {name}: {formats.count(value)}")
            x_range = _x_range(panel, first, last)
            yield tag("rect", tooltip, class_=f"mark {class_}", y=floor - height, height=height, **x_range)


def _readings(panel: SharePanel) -> Iterator[Markup]:
    """The steps where another leader read the state, or an administrator changed it."""
    for reading in panel.readings:
        x = percent(100 * reading.bin / max(1, len(panel.peaks)))
        tooltip = tag("title", f"{_step_time(panel, reading.bin)}  {CAUSES[reading.cause]}")
        for low, high in ((TOP, TOP + OFFSETS_HEIGHT), (FLOOR - STATES_HEIGHT, FLOOR)):
            yield tag("line", tooltip, class_=READ[1], x1=x, x2=x, y1=low, y2=high)


def _x_range(panel: SharePanel, first: int, last: int) -> dict[str, str]:
    bins = max(1, len(panel.peaks))
    return {"x": percent(100 * first / bins), "width": percent(100 * (last - first + 1) / bins)}


def _value_runs(values: Sequence[T]) -> Iterator[tuple[int, int, T]]:
    """First and last step of each run of equal values, so that each run needs only one rectangle."""
    first = 0
    for index, value in enumerate(values):
        if index + 1 == len(values) or values[index + 1] != value:
            yield first, index, value
            first = index + 1


def _time_axis(panel: SharePanel) -> list[Markup]:
    scale = TimeScale(panel.start_us, panel.start_us + max(1, len(panel.peaks)) * panel.step_us)
    lines = [*scale.grid(TOP + OFFSETS_HEIGHT, top=TOP), *scale.grid(FLOOR, top=FLOOR - STATES_HEIGHT)]
    return [*lines, *scale.x_labels(FLOOR + 14)]


def _step_time(panel: SharePanel, index: int) -> str:
    return formats.step_time(panel.start_us + index * panel.step_us, step_us=panel.step_us)
