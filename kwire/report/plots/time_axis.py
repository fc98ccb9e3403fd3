"""The time axis of plots with a row for each item."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kwire.report import formats
from kwire.report.markup import Markup, tag
from kwire.report.plots.svg import percent, tick_anchor

TICKS = 4
# A bar shorter than this part of the plot is drawn some pixels wide, because it would be invisible otherwise.
BAR_WIDTH_MIN_PERCENT = 0.5
BAR_WIDTH_MIN_PX = 3


@dataclass(frozen=True, slots=True)
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

    def position(self, us: int) -> float:
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

    def grid(self, height: int) -> list[Markup]:
        """Vertical lines at the ticks."""
        positions = [percent(100 * index / (TICKS - 1)) for index in range(TICKS)]
        return [tag("line", class_="grid", x1=x, x2=x, y1="0", y2=height) for x in positions]

    def axis(self) -> Markup:
        """The labels of the ticks, as a row of a plot."""
        step = (self.end_us - self.start_us) // (TICKS - 1)
        labels = []
        for index in range(TICKS):
            label = formats.axis_label(self.start_us + index * step, start_us=self.start_us, step_us=step)
            x = percent(100 * index / (TICKS - 1))
            labels.append(tag("text", label, x=x, y=12, text_anchor=tick_anchor(index, TICKS)))
        return tag("li", tag("svg", *labels, width="100%", height=16, aria_hidden="true"), class_="axis")
