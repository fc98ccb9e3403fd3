"""Time against size of data as one SVG, in colours that fit light and dark pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import floor, log10
from typing import Protocol

_WIDTH, _HEIGHT = 720, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 40, 45
_COLOURS = ("#2563eb", "#d97706", "#059669")
_GB = 1_000_000_000


class Point(Protocol):
    """What is plotted."""

    @property
    def query(self) -> str: ...  # noqa: D102
    @property
    def size(self) -> int: ...  # noqa: D102
    @property
    def seconds(self) -> float: ...  # noqa: D102


def plot(points: Sequence[Point]) -> str:
    """A line for each query, with its points, and a thin straight one from 0 through the first of them."""
    queries = [
        [point for point in points if point.query == query] for query in dict.fromkeys(each.query for each in points)
    ]
    size_max = max(point.size for point in points) * 1.05
    seconds_max = max(max(each.seconds for each in own) for own in queries)
    seconds_max = max(seconds_max, *(_straight(own) for own in queries)) * 1.05

    def place(size: float, seconds: float) -> tuple[float, float]:
        x = _LEFT + size / size_max * (_WIDTH - _LEFT - _RIGHT)
        return round(x, 1), round(_HEIGHT - _BOTTOM - seconds / seconds_max * (_HEIGHT - _TOP - _BOTTOM), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif"',
        ' font-size="12">',
        "<title>Time against size of captures</title>",
        '<g stroke="#888" fill="#888">',
        f'<path d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}" fill="none"/>',
    ]
    for size in sorted({point.size for point in points}):
        x, y = place(size, 0)
        parts.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle" stroke="none">{size / _GB:.1f} GB</text>')
    step = _round_step(seconds_max / 5)
    for number in range(1, int(seconds_max / step) + 1):
        seconds = step * number
        x, y = place(0, seconds)
        parts.append(f'<path d="M{x} {y}H{_WIDTH - _RIGHT}" opacity=".25"/>')
        parts.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end" stroke="none">{seconds:g} s</text>')
    parts.append("</g>")
    for number, own in enumerate(queries):
        parts += _line(own, place, number)
    return "\n".join([*parts, "</svg>", ""])


def _line(own: Sequence[Point], place: Callable[[float, float], tuple[float, float]], number: int) -> Iterator[str]:
    """What is drawn of one query."""
    colour = _COLOURS[number % len(_COLOURS)]
    places = [place(point.size, point.seconds) for point in own]
    line = " ".join(f"{x},{y}" for x, y in places)
    x0, y0 = place(0, 0)
    x1, y1 = place(own[-1].size, _straight(own))
    yield f'<path d="M{x0} {y0}L{x1} {y1}" stroke="{colour}" stroke-dasharray="3 4" opacity=".6"/>'
    yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for x, y in places:
        yield f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>'
    yield f'<text x="{_LEFT + 12}" y="{20 + number * 16}" fill="{colour}">{escape(own[0].query)}</text>'


def _straight(own: Sequence[Point]) -> float:
    """What the last of a query's points would take if time grew as the data from the first one on."""
    return own[0].seconds * own[-1].size / own[0].size


def _round_step(least: float) -> float:
    """The next of 1, 2, 5, 10, 20 ... (and of 0.5, 0.2 ...) that is not smaller."""
    unit = 10.0 ** floor(log10(least))
    return next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= least)
