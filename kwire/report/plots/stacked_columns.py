"""Plots of counts over time as stacked columns."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kwire.report import formats
from kwire.report.markup import Markup, join, tag
from kwire.report.model import Timeline
from kwire.report.plots.svg import draw_legend, draw_svg, percent, tick_anchor

SERIES_MAX = 6
OTHERS = "others"

TOP = 14
PLOT_HEIGHT = 168
HEIGHT = TOP + PLOT_HEIGHT + 24
TICKS = 4


def plot_stacked_columns(data: Timeline, *, title: str, colours: str) -> Markup:
    """Stacked columns over time, one colour for each series; small series beyond six are combined as `others`.

    Args: colours: prefix of the CSS classes of the series' colours, numbered from 0.
    """
    series = group_small_series(data)
    classes = {name: f"{colours}{index}" for index, name in enumerate(series)}
    sums = [sum(values[index] for values in series.values()) for index in range(data.bins)]
    highest = max(sums, default=0)
    top = nice_ceiling(highest)
    total, step = formats.count(data.total), formats.span(data.step_us)
    description = f"{total} in all, in steps of {step}; at most {highest} in one step."
    parts = [*_grid(top), *_marks(data, series, classes, top), _axis(data)]
    plot = draw_svg(title, *parts, height=HEIGHT, description=description)
    return join(tag("div", _scale(top), plot, class_="scaled"), draw_legend(list(classes.items())))


def group_small_series(data: Timeline) -> dict[str, list[int]]:
    """The series to plot: the largest ones, and the sum of the rest."""
    names = list(data.series)
    if len(names) <= SERIES_MAX:
        return data.series
    largest = {name: data.series[name] for name in names[: SERIES_MAX - 1]}
    rest = [data.series[name] for name in names[SERIES_MAX - 1 :]]
    return {**largest, OTHERS: [sum(column) for column in zip(*rest, strict=True)]}


def nice_ceiling(value: int) -> int:
    """The next number suitable as the end of an axis: 1, 2, 4, 6, 8 times a power of ten, even from 2 on."""
    if value <= 1:
        return 1
    power = int(10 ** math.floor(math.log10(value)))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)


def _levels(top: int) -> list[tuple[int, float]]:
    levels = [0, top // 2, top] if top % 2 == 0 else [0, top]
    return [(level, TOP + PLOT_HEIGHT * (1 - level / top)) for level in levels]


def _grid(top: int) -> list[Markup]:
    return [tag("line", class_="grid", x1="0", x2="100%", y1=y, y2=y) for _, y in _levels(top)]


def _scale(top: int) -> Markup:
    """The labels of the y axis, as a separate SVG of fixed width next to the plot."""
    labels = [tag("text", _short(level), x="100%", y=y + 4, text_anchor="end") for level, y in _levels(top)]
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


def _axis(data: Timeline) -> Markup:
    ticks = sorted({round(data.bins * part / (TICKS - 1)) for part in range(TICKS)})
    labels = []
    for index, tick in enumerate(ticks):
        x, y = percent(100 * tick / data.bins), TOP + PLOT_HEIGHT + 16
        labels.append(tag("text", _bin_name(data, tick), x=x, y=y, text_anchor=tick_anchor(index, len(ticks))))
    return join(*labels)


def _bin_name(data: Timeline, index: int) -> str:
    start_us = data.start_us + index * data.step_us
    return formats.axis_label(start_us, start_us=data.start_us, step_us=data.step_us)
