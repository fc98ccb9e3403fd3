"""The time axis: round ticks and labels that do not overlap."""

from __future__ import annotations

import random

import pytest

from kwire.report.plots.time_axis import LABEL_SPACE_PX, PLOT_WIDTH_PX, TICKS_MAX, TimeScale

START_US = 1_795_257_723_456_789
DAY_US = 86_400_000_000


@pytest.mark.parametrize(
    ("first_us", "last_us", "labels"),
    [
        (8 * 3_600_000_000 + 400_000, 8 * 3_600_000_000 + 1_730_000, ["08:00:00.5", ":01.0", ":01.5"]),
        (59_000_000, 62_000_000, ["00:00:59", "00:01:00", ":01", ":02"]),
        (0, 600_000_000, ["00:00", "00:05", "00:10"]),
        (0, 2 * DAY_US, ["01 Jan", "02 Jan", "03 Jan"]),
        (3_600_000_000, 24_000_000_000, ["01 Jan 02:00", "04:00", "06:00"]),
        (0, 20 * DAY_US, ["01 Jan", "06 Jan", "11 Jan", "16 Jan", "21 Jan"]),
    ],
)
def test_labels_are_round_times_of_day_without_what_they_share(first_us: int, last_us: int, labels: list[str]) -> None:
    assert [label.text for label in TimeScale(first_us, last_us).labels.values()] == labels


def test_labels_neither_overlap_nor_leave_the_narrowest_plot() -> None:
    chance = random.Random(7)
    for _ in range(5_000):
        first = START_US + chance.randrange(DAY_US)
        labels = [*TimeScale(first, first + round(10 ** chance.uniform(1, 13))).labels.values()]

        assert 2 <= len(labels) <= TICKS_MAX
        ends = [label.left + label.width for label in labels]
        assert all(label.left >= 0 for label in labels)
        assert ends[-1] <= 100
        space = 100 * LABEL_SPACE_PX / PLOT_WIDTH_PX
        assert all(end + space <= label.left for end, label in zip(ends, labels[1:], strict=False))


def test_two_plots_that_begin_at_different_times_have_the_same_ticks() -> None:
    """A tick is a time of day, not a distance from where the data of its plot begins."""
    scales = [TimeScale(START_US + begin, START_US + 2_000_000) for begin in (0, 40_000)]

    labels = [[label.text for label in scale.labels.values()] for scale in scales]

    assert labels == [["10:42:04", ":05"]] * 2


def test_a_grid_line_is_at_every_tick() -> None:
    scale = TimeScale(0, 4_000_000)

    assert [*scale.labels] == [0, 2_000_000, 4_000_000]
    assert [f'x1="{percent}%"' in str(scale.grid(10)) for percent in (0, 50, 100)] == [True] * 3
