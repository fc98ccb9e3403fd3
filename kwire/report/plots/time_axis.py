"""The time axis of every plot: ticks at round times of day, with labels that do not overlap on a narrow page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from kwire.report import formats
from kwire.report.markup import Markup, tag
from kwire.report.plots.svg import percent
from kwire.report.round_times import round_ticks

TICKS_MAX = 7
# The width of the narrowest plot, on a page of 390 pixels, and of a character; with a space between two labels.
PLOT_WIDTH_PX = 280
CHARACTER_PX = 6.8
LABEL_SPACE_PX = 8
# A bar shorter than this part of the plot is drawn some pixels wide, because it would be invisible otherwise.
BAR_WIDTH_MIN_PERCENT = 0.5
BAR_WIDTH_MIN_PX = 3


@dataclass(frozen=True, slots=True)
class TickLabel:
    """A label below the axis: its text, where it is in percent, and which part of it is there (an SVG anchor)."""

    text: str
    position: float
    anchor: str

    @property
    def width(self) -> float:
        """The width in the narrowest plot, percent."""
        return 100 * len(self.text) * CHARACTER_PX / PLOT_WIDTH_PX

    @property
    def left(self) -> float:
        """Where the text begins in the narrowest plot, percent."""
        return self.position - self.width * {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]


@dataclass(frozen=True)
class TimeScale:
    """Maps microseconds since 1970 to positions along the x axis."""

    start_us: int
    end_us: int

    @classmethod
    def over(cls, times: Iterable[int | None]) -> TimeScale:
        """A scale that covers all these times."""
        known = [us for us in times if us is not None]
        first, last = min(known, default=0), max(known, default=1)
        return cls(first, max(last, first + 1))

    @cached_property
    def labels(self) -> dict[int, TickLabel]:
        """The label of each tick: as many round times as fit, or every second or third one of them."""
        steps = [round_ticks(self.start_us, self.end_us, ticks_max) for ticks_max in range(TICKS_MAX, 1, -1)]
        choices = [*steps, *((step, ticks[::stride]) for stride in range(2, TICKS_MAX) for step, ticks in steps)]
        for step, ticks in choices:
            labels = self._labels_of(ticks, step)
            if len(ticks) > 1 and _are_apart(labels):
                return dict(zip(ticks, labels, strict=True))
        return {}

    def _labels_of(self, ticks: list[int], step: int) -> list[TickLabel]:
        texts = [
            formats.axis_label(tick, step_us=step, previous_us=previous)
            for tick, previous in zip(ticks, [None, *ticks], strict=False)
        ]
        return [_place_label(text, self.position(tick)) for text, tick in zip(texts, ticks, strict=True)]

    def position(self, us: float) -> float:
        """The position of a time, percent; times outside the scale are at its edge."""
        part = (us - self.start_us) / (self.end_us - self.start_us)
        return 100 * min(max(part, 0.0), 1.0)

    def bar(self, start_us: int, end_us: int, *children: Markup, y: int, height: int, class_: str) -> Markup:
        """A bar from one time to another, wide enough to be visible."""
        x, width = self.position(start_us), self.position(end_us) - self.position(start_us)
        if width < BAR_WIDTH_MIN_PERCENT:
            # Near the right edge the minimum width would exceed the plot.
            x = min(x, 100 - BAR_WIDTH_MIN_PERCENT)
            return tag("rect", *children, class_=class_, x=percent(x), y=y, width=BAR_WIDTH_MIN_PX, height=height)
        return tag("rect", *children, class_=class_, x=percent(x), y=y, width=percent(width), height=height, rx=2)

    def grid(self, height: float, *, top: float = 0) -> list[Markup]:
        """Vertical lines at the ticks, from `top` to `height`."""
        positions = [percent(self.position(tick)) for tick in self.labels]
        return [tag("line", class_="grid", x1=x, x2=x, y1=top, y2=height) for x in positions]

    def x(self, us: float) -> str:
        """The position of a time along the x axis."""
        return percent(self.position(us))

    def x_labels(self, y: float) -> list[Markup]:
        """The labels of the ticks as text at this height."""
        return [
            tag("text", label.text, class_="tick", x=percent(label.position), y=y, text_anchor=label.anchor)
            for label in self.labels.values()
        ]

    def axis(self) -> Markup:
        """The labels of the ticks, as a row of a plot."""
        drawing = tag("svg", *self.x_labels(12), width="100%", height=16, aria_hidden="true")
        return tag("li", drawing, class_="axis")


def _place_label(text: str, position: float) -> TickLabel:
    """The label in the middle of its position, or at the edge of the plot that it would leave."""
    label = TickLabel(text, position, "middle")
    if label.left < 0:
        return TickLabel(text, 0, "start")
    return TickLabel(text, 100, "end") if label.left + label.width > 100 else label


def _are_apart(labels: list[TickLabel]) -> bool:
    space = 100 * LABEL_SPACE_PX / PLOT_WIDTH_PX
    return all(label.left + label.width + space <= following.left for label, following in pairwise(labels))
