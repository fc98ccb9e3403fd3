"""A line moved if the ranges of the rounds do not overlap, and the medians differ by more than 5 %."""

from __future__ import annotations

import pytest

from tools.bench.compare.decision import Line, Verdict, join_rounds


@pytest.mark.parametrize(
    ("base", "here", "verdict"),
    [
        ([100, 101, 102], [110, 111, 112], Verdict.SLOWER),
        ([110, 111, 112], [100, 101, 102], Verdict.FASTER),
        # The ranges overlap, though the medians differ by a third.
        ([100, 101, 140], [135, 136, 137], Verdict.SAME),
        ([135, 136, 137], [100, 101, 140], Verdict.SAME),
        # The ranges do not overlap, but the difference is within 5 %.
        ([100, 101, 102], [103, 104, 105], Verdict.SAME),
        ([103, 104, 105], [100, 101, 102], Verdict.SAME),
        # One value in common is an overlap.
        ([100, 101, 120], [120, 130, 140], Verdict.SAME),
        ([], [1.0], Verdict.ONLY_HERE),
        ([1.0], [], Verdict.ONLY_BASE),
    ],
)
def test_a_line_moves_beyond_the_noise_only(base: list[float], here: list[float], verdict: Verdict) -> None:
    assert Line("work", base, here).verdict is verdict


def test_the_ratio_is_that_of_the_medians() -> None:
    assert Line("work", [1, 2, 30], [4, 5, 6]).ratio == 2.5
    assert Line("work", [], [4]).ratio is None


def test_rounds_are_joined_by_name_in_the_order_of_this_commit() -> None:
    base = [{"old": 1.0, "both": 2.0}, {"old": 3.0, "both": 4.0}]
    here = [{"both": 5.0, "new": 6.0}, {"both": 7.0, "new": 8.0}]

    assert join_rounds(base, here) == [
        Line("both", [2.0, 4.0], [5.0, 7.0]),
        Line("new", [], [6.0, 8.0]),
        Line("old", [1.0, 3.0], []),
    ]
