"""Plots of counts over time as stacked columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kwire.report import formats
from kwire.report.markup import Markup, join, tag
from kwire.report.model import Timeline
from kwire.report.plots.svg import draw_legend, draw_svg, percent
from kwire.report.plots.time_axis import TimeScale

# The table of colours has as many ranks.
SERIES_MAX = 6
OTHERS = "others"

TOP = 14
PLOT_HEIGHT = 168
HEIGHT = TOP + PLOT_HEIGHT + 24
# More lines across the plot would be too close to each other.
INTERVALS_MAX = 5


def plot_stacked_columns(data: Timeline, classes: Mapping[str, str], *, title: str) -> Markup:
    """Stacked columns over time, one colour for each series. Args: classes: by series, from bottom to top."""
    series = {name: data.series[name] for name in classes if name in data.series}
    sums = [sum(values[index] for values in series.values()) for index in range(data.bins)]
    highest = max(sums, default=0)
    levels = count_levels(highest)
    total, step = formats.count(data.total), formats.span(data.step_us)
    description = f"{total} in all, in steps of {step}; at most {highest} in one step."
    scale = TimeScale(data.start_us, data.start_us + data.bins * data.step_us)
    times = [*scale.grid(TOP + PLOT_HEIGHT, top=TOP), *scale.x_labels(TOP + PLOT_HEIGHT + 16)]
    parts = [*_grid(levels), *times, *_marks(data, series, classes, levels[-1])]
    plot = draw_svg(title, *parts, height=HEIGHT, description=description)
    legend = draw_legend([(name, class_) for name, class_ in classes.items() if name in series])
    return join(tag("div", _scale(levels), plot, class_="scaled"), legend)


def group_small_series(data: Timeline) -> Timeline:
    """The series to plot: the largest ones, and the sum of the rest as `others`."""
    names = list(data.series)
    if len(names) <= SERIES_MAX:
        return data
    largest = {name: data.series[name] for name in names[: SERIES_MAX - 1]}
    rest = [data.series[name] for name in names[SERIES_MAX - 1 :]]
    return replace(data, series={**largest, OTHERS: [sum(column) for column in zip(*rest, strict=True)]})


def count_levels(highest: int) -> list[int]:
    """The levels of an axis of counts: 0 and multiples of 1, 2 or 5 times a power of ten, up to the highest count."""
    steps = (unit * 10**power for power in range(19) for unit in (1, 2, 5))
    step = next((step for step in steps if step * INTERVALS_MAX >= highest), max(1, highest))
    return [index * step for index in range(max(1, -(-highest // step)) + 1)]


def _level_y(level: int, top: int) -> float:
    return TOP + PLOT_HEIGHT * (1 - level / top)


def _grid(levels: list[int]) -> list[Markup]:
    heights = [_level_y(level, levels[-1]) for level in levels]
    return [tag("line", class_="grid", x1="0", x2="100%", y1=y, y2=y) for y in heights]


def _scale(levels: list[int]) -> Markup:
    """The labels of the y axis, as a separate SVG of fixed width next to the plot."""
    heights = [(level, _level_y(level, levels[-1])) for level in levels]
    labels = [tag("text", _short(level), x="100%", y=y + 4, text_anchor="end") for level, y in heights]
    return tag("svg", *labels, width="100%", height=HEIGHT, aria_hidden="true")


def _short(level: int) -> str:
    for power, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if level >= power:
            return f"{level / power:.3g} {unit}"
    return str(level)


def _marks(data: Timeline, series: Mapping[str, list[int]], classes: Mapping[str, str], top: int) -> list[Markup]:
    parts = []
    bottoms = [float(TOP + PLOT_HEIGHT)] * data.bins
    for name, values in series.items():
        for index, value in enumerate(values):
            if value:
                height = PLOT_HEIGHT * value / top
                bottoms[index] -= height
                tooltip = tag("title", f"{_bin_name(data, index)}  {name}: {formats.count(value)}")
                span = {"x": percent(100 * index / data.bins), "width": percent(84 / data.bins)}
                class_ = f"mark {classes[name]}"
                parts.append(tag("rect", tooltip, class_=class_, **span, y=bottoms[index], height=height))
    return parts


def _bin_name(data: Timeline, index: int) -> str:
    return formats.step_time(data.start_us + index * data.step_us, step_us=data.step_us)
