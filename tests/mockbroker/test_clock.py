"""The clock that only the shell reads."""

from __future__ import annotations

import pytest

from mockbroker.clock import Clock


def test_a_frozen_clock_moves_only_by_hand() -> None:
    clock = Clock()
    clock.freeze()
    start = clock.now_ms()

    clock.advance(30_000)

    assert [clock.now_ms(), clock.now_ms()] == [start + 30_000] * 2


def test_a_thawed_clock_goes_on_from_where_it_stood() -> None:
    clock = Clock()
    clock.freeze()
    clock.advance(3_600_000)
    stood = clock.now_ms()

    clock.thaw()

    assert stood <= clock.now_ms() < stood + 60_000
    assert not clock.is_frozen


def test_the_clock_refuses_to_go_back() -> None:
    with pytest.raises(ValueError, match="cannot go back"):
        Clock().advance(-1)


def test_a_clock_that_jumps_runs_as_the_wall_clock_in_between() -> None:
    clock = Clock()
    clock.freeze()
    clock.start_auto(5)

    assert not clock.is_frozen
    assert clock.auto_settle_ms == 5
    clock.thaw()
    assert clock.auto_settle_ms is None
