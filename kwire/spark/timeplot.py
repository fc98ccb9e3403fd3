"""Counts over time as stacked columns."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kwire.spark import formats
from kwire.spark.markup import Markup, join, tag
from kwire.spark.model import Timeline
from kwire.spark.svg import anchor, drawing, legend, percent

SERIES_MAX = 6
OTHERS = "others"

TOP = 14
PLOT_HEIGHT = 168
HEIGHT = TOP + PLOT_HEIGHT + 24
TICKS = 4


def columns(data: Timeline, *, title: str, colours: str) -> Markup:
    """Stacked columns over time, one colour for each series; small series beyond six are drawn as `others`.

    Args: colours: prefix of the classes that give the series their colours, numbered from 0.
    """
    shown = grouped(data)
    classes = {name: f"{colours}{index}" for index, name in enumerate(shown)}
    sums = [sum(values[index] for values in shown.values()) for index in range(data.bins)]
    top = nice_ceiling(max(sums, default=0))
    highest = max(sums, default=0)
    told = (
        f"{formats.count(data.total)} in all, in steps of {formats.span(data.step_us)}; at most {highest} in one step."
    )
    parts = [*_grid(top), *_marks(data, shown, classes, top), _axis(data)]
    plot = drawing(title, *parts, height=HEIGHT, description=told)
    return join(tag("div", _scale(top), plot, class_="scaled"), legend(list(classes.items())))


def grouped(data: Timeline) -> dict[str, list[int]]:
    """The series to draw: the largest ones, and the sum of the rest."""
    names = list(data.series)
    if len(names) <= SERIES_MAX:
        return data.series
    kept = {name: data.series[name] for name in names[: SERIES_MAX - 1]}
    rest = [data.series[name] for name in names[SERIES_MAX - 1 :]]
    return {**kept, OTHERS: [sum(column) for column in zip(*rest, strict=True)]}


def nice_ceiling(value: int) -> int:
    """The next number that an axis may end with: 1, 2, 5 times a power of ten, halved without a fraction from 2 on."""
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
    """The labels of the y axis, in a drawing of their own: it keeps its width while the plot takes what is left."""
    labels = [tag("text", _short(level), x="100%", y=y + 4, text_anchor="end") for level, y in _levels(top)]
    return tag("svg", *labels, width="100%", height=HEIGHT, aria_hidden="true")


def _short(level: int) -> str:
    for power, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if level >= power:
            return f"{level / power:.3g} {unit}"
    return str(level)


def _marks(data: Timeline, shown: Mapping[str, list[int]], classes: Mapping[str, str], top: int) -> list[Markup]:
    parts = []
    floor = [float(TOP + PLOT_HEIGHT)] * data.bins
    for name, values in shown.items():
        for index, value in enumerate(values):
            if value:
                height = PLOT_HEIGHT * value / top
                floor[index] -= height
                told = tag("title", f"{_bin_name(data, index)}  {name}: {formats.count(value)}")
                x, width = percent(100 * index / data.bins), percent(84 / data.bins)
                parts.append(
                    tag("rect", told, class_=f"mark {classes[name]}", x=x, width=width, y=floor[index], height=height)
                )
    return parts


def _axis(data: Timeline) -> Markup:
    ticks = sorted({round(data.bins * part / (TICKS - 1)) for part in range(TICKS)})
    labels = []
    for index, tick in enumerate(ticks):
        label = formats.axis_label(data.start_us + tick * data.step_us, start_us=data.start_us, step_us=data.step_us)
        x, y = percent(100 * tick / data.bins), TOP + PLOT_HEIGHT + 16
        labels.append(tag("text", label, x=x, y=y, text_anchor=anchor(index, len(ticks))))
    return join(*labels)


def _bin_name(data: Timeline, index: int) -> str:
    start_us = data.start_us + index * data.step_us
    return formats.axis_label(start_us, start_us=data.start_us, step_us=data.step_us)
