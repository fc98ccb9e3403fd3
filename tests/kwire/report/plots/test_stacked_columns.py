"""Stacked columns: the end of the axis, and the combination of small series."""

from __future__ import annotations

from kwire.report.model import Timeline
from kwire.report.plots import stacked_columns


def test_the_axis_of_counts_ends_above_the_highest_column() -> None:
    assert [stacked_columns.nice_ceiling(value) for value in (0, 1, 2, 3, 5, 7, 9, 11, 70, 101, 999)] == [
        *(1, 1, 2, 4, 6, 8, 10, 20, 80, 200, 1000)
    ]


def test_small_series_are_combined_without_losing_counts() -> None:
    data = Timeline(0, 1, 2, {f"api{index}": [index, 1] for index in range(9, 0, -1)})

    shown = stacked_columns.group_small_series(data)

    assert len(shown) == stacked_columns.SERIES_MAX
    assert sum(map(sum, shown.values())) == data.total
