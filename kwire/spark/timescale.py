"""Time along the x axis, for plots with a row for each thing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kwire.spark import formats
from kwire.spark.markup import Markup, join, tag
from kwire.spark.svg import anchor, percent

TICKS = 4
# A bar shorter than this part of the plot is drawn some pixels wide instead: it would not be seen, but it was there.
SEEN_PERCENT = 0.5
SEEN_PX = 3


@dataclass(frozen=True, slots=True)
class TimeScale:
    """From microseconds since 1970 to places along the x axis."""

    start_us: int
    end_us: int

    @classmethod
    def over(cls, times: Iterable[int | None]) -> TimeScale:
        """A scale that holds all these times."""
        known = [us for us in times if us is not None]
        first, last = min(known, default=0), max(known, default=1)
        return cls(first, max(last, first + 1))

    def place(self, us: int) -> float:
        """Where a time stands, percent; one outside stands at the edge."""
        part = (us - self.start_us) / (self.end_us - self.start_us)
        return 100 * min(max(part, 0.0), 1.0)

    def bar(self, start_us: int, end_us: int, *children: Markup, y: int, height: int, class_: str) -> Markup:
        """A bar from one time to another, wide enough to be seen."""
        x, wide = self.place(start_us), self.place(end_us) - self.place(start_us)
        if wide < SEEN_PERCENT:
            # Near the right edge the few pixels would fall outside.
            x = min(x, 100 - SEEN_PERCENT)
            return tag("rect", *children, class_=class_, x=percent(x), y=y, width=SEEN_PX, height=height)
        return tag("rect", *children, class_=class_, x=percent(x), y=y, width=percent(wide), height=height, rx=2)

    def grid(self, height: int) -> list[Markup]:
        """Lines at the ticks."""
        places = [percent(100 * index / (TICKS - 1)) for index in range(TICKS)]
        return [tag("line", class_="grid", x1=x, x2=x, y1="0", y2=height) for x in places]

    def axis(self) -> Markup:
        """The labels of the ticks, as a row of a plot."""
        return tag("li", tag("svg", join(*self.labels(12)), width="100%", height=16, aria_hidden="true"), class_="axis")

    def labels(self, y: int) -> list[Markup]:
        """The labels of the ticks."""
        step = (self.end_us - self.start_us) // (TICKS - 1)
        made = []
        for index in range(TICKS):
            us = self.start_us + index * step
            told = formats.axis_label(us, start_us=self.start_us, step_us=step)
            x = percent(100 * index / (TICKS - 1))
            made.append(tag("text", told, x=x, y=y, text_anchor=anchor(index, TICKS)))
        return made
