"""Plot time against data size as one SVG, in colours for light and dark pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import floor, log10
from typing import Protocol

_WIDTH, _HEIGHT = 720, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 40, 45
_COLOURS = ("#2563eb", "#d97706", "#059669")
_GB = 1_000_000_000


#: Gives the place of a size and a time in the picture.
Position = Callable[[float, float], tuple[float, float]]


class Point(Protocol):
    """A measurement to plot."""

    @property
    def query(self) -> str: ...  # noqa: D102
    @property
    def size(self) -> int: ...  # noqa: D102
    @property
    def seconds(self) -> float: ...  # noqa: D102


def plot(points: Sequence[Point]) -> str:
    """A line for each query with its points, and a thin straight line from 0 through the first point."""
    names = dict.fromkeys(point.query for point in points)
    queries = [[point for point in points if point.query == name] for name in names]
    size_max = max(point.size for point in points) * 1.05
    seconds_max = max(*(point.seconds for point in points), *map(_linear_estimate, queries)) * 1.05

    def position(size: float, seconds: float) -> tuple[float, float]:
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
        x, y = position(size, 0)
        parts.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle" stroke="none">{size / _GB:.1f} GB</text>')
    step = _round_step(seconds_max / 5)
    for number in range(1, int(seconds_max / step) + 1):
        seconds = step * number
        x, y = position(0, seconds)
        parts.append(f'<path d="M{x} {y}H{_WIDTH - _RIGHT}" opacity=".25"/>')
        parts.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end" stroke="none">{seconds:g} s</text>')
    parts.append("</g>")
    for number, query_points in enumerate(queries):
        parts += _line(query_points, position, number)
    return "\n".join([*parts, "</svg>", ""])


def _line(points: Sequence[Point], position: Position, number: int) -> Iterator[str]:
    """The SVG elements of one query."""
    colour = _COLOURS[number % len(_COLOURS)]
    positions = [position(point.size, point.seconds) for point in points]
    line = " ".join(f"{x},{y}" for x, y in positions)
    x0, y0 = position(0, 0)
    x1, y1 = position(points[-1].size, _linear_estimate(points))
    yield f'<path d="M{x0} {y0}L{x1} {y1}" stroke="{colour}" stroke-dasharray="3 4" opacity=".6"/>'
    yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for x, y in positions:
        yield f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>'
    yield f'<text x="{_LEFT + 12}" y="{20 + number * 16}" fill="{colour}">{escape(points[0].query)}</text>'


def _linear_estimate(points: Sequence[Point]) -> float:
    """The time of the last point if time grew in proportion to the data from the first point on."""
    return points[0].seconds * points[-1].size / points[0].size


def _round_step(step_min: float) -> float:
    """The smallest of 1, 2, 5, 10, 20 ... (and of 0.5, 0.2 ...) that is not smaller than this."""
    unit = 10.0 ** floor(log10(step_min))
    return next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= step_min)
