"""Bars: positions and widths. Latency lines: the marks for which there are enough requests."""

from __future__ import annotations

import pytest

from kwire.report.plots.bars import latency_points, plot_latency, plot_stacked_bars
from kwire.report.row_types import LatencyRow


def test_stacked_bars_fill_their_width() -> None:
    drawn = plot_stacked_bars([("g", {"accept": 1, "reject": 3})], {"accept": "a", "release": "r", "reject": "j"})

    assert 'class="mark a" x="0%" y="4" width="25%"' in drawn
    assert 'class="mark j" x="25%" y="4" width="75%"' in drawn
    assert "release" not in drawn


@pytest.mark.parametrize(
    ("requests", "marks"),
    [
        (1, ["slowest"]),
        (4, ["slowest"]),
        (5, ["p50", "slowest"]),
        (19, ["p50", "slowest"]),
        (20, ["p50", "p95", "slowest"]),
        (100, ["p50", "p95", "p99", "slowest"]),
    ],
)
def test_a_latency_has_the_marks_that_differ_from_its_maximum(requests: int, marks: list[str]) -> None:
    row = LatencyRow("Fetch", "v1", requests, 1_000, 2_000, 3_000, 4_000)

    plot = plot_latency([row])

    assert list(latency_points(row)) == marks
    for name in ("p50", "p95", "p99"):
        assert (f'"mark {name}"' in plot) is (name in marks)
        assert (f"({name})</span>" in plot or f"<span>{name}</span>" in plot) is (name in marks)
    assert '"mark max"' in plot
