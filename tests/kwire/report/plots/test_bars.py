"""Bars: positions and widths."""

from __future__ import annotations

from kwire.report.plots.bars import plot_stacked_bars


def test_stacked_bars_fill_their_width() -> None:
    drawn = plot_stacked_bars([("g", {"accept": 1, "reject": 3})], {"accept": "a", "release": "r", "reject": "j"})

    assert 'class="mark a" x="0%" y="4" width="25%"' in drawn
    assert 'class="mark j" x="25%" y="4" width="75%"' in drawn
    assert "release" not in drawn
