"""Stacked columns: the axis of counts, the combination of small series, and their colours."""

from __future__ import annotations

import pytest

from kwire.report.model import Timeline
from kwire.report.plots import stacked_columns


@pytest.mark.parametrize(
    ("highest", "levels"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (3, [0, 1, 2, 3]),
        (11, [0, 5, 10, 15]),
        (21, [0, 5, 10, 15, 20, 25]),
        (101, [0, 50, 100, 150]),
        (999, [0, 200, 400, 600, 800, 1000]),
    ],
)
def test_the_axis_of_counts_has_round_levels_up_to_the_highest_column(highest: int, levels: list[int]) -> None:
    assert stacked_columns.count_levels(highest) == levels


def test_columns_fill_more_than_half_of_the_plot() -> None:
    assert all(highest > stacked_columns.count_levels(highest)[-1] / 2 for highest in range(1, 5_000))


def test_small_series_are_combined_without_losing_counts() -> None:
    data = Timeline(0, 1, 2, {f"api{index}": [index, 1] for index in range(9, 0, -1)})

    shown = stacked_columns.group_small_series(data)

    assert len(shown.series) == stacked_columns.SERIES_MAX
    assert shown.total == data.total


def test_a_series_has_its_colour_and_place_whatever_the_order_of_the_counts() -> None:
    classes = {"first": "m-first", "again": "m-again"}
    few_again = Timeline(0, 1_000_000, 1, {"first": [9], "again": [2]})
    many_again = Timeline(0, 1_000_000, 1, {"again": [9], "first": [2]})

    for data in (few_again, many_again):
        plot = stacked_columns.plot_stacked_columns(data, classes, title="Deliveries")
        assert '<rect class="mark m-first"' in plot
        assert plot.index("m-first") < plot.index("m-again")
        for name in classes:
            assert f"{name}: {data.series[name][0]}</title>" in plot.partition(f'class="mark m-{name}"')[2][:200]
