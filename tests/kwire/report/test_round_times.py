"""Round times: time bins and ticks."""

from __future__ import annotations

import random

import pytest

from kwire.report.round_times import DAY_US, STEPS_US, round_step, round_ticks, time_bins


def test_every_step_of_less_than_a_day_divides_a_day() -> None:
    assert [step for step in STEPS_US if step <= DAY_US and DAY_US % step] == []
    assert list(STEPS_US) == sorted(STEPS_US)


@pytest.mark.parametrize(("length", "step"), [(1, 1), (3, 5), (27_000, 50_000), (16_000_000, 30_000_000)])
def test_a_length_is_rounded_up(length: int, step: int) -> None:
    assert round_step(length) == step


def test_lengths_beyond_a_day_are_a_round_number_of_days() -> None:
    assert round_step(DAY_US + 1) == 2 * DAY_US
    assert round_step(13 * DAY_US) == 20 * DAY_US
    assert round_step(10**19) == 10**19


def test_ticks_are_round_and_within_the_times() -> None:
    chance = random.Random(3)
    for _ in range(3_000):
        first = chance.randrange(10**16)
        last = first + round(10 ** chance.uniform(1, 13))

        step, ticks = round_ticks(first, last, 5)

        assert round_step(step) == step
        assert 2 <= len(ticks) <= 5
        assert all(tick % step == 0 and first <= tick <= last for tick in ticks)
        # No round time in between is left out.
        assert ticks[0] - step < first
        assert ticks[-1] + step > last


def test_time_bins_begin_at_a_round_time() -> None:
    assert time_bins(1_234_567, 2_345_678, 48) == (1_200_000, 50_000, 23)
