"""Calls of clients that do not end are left behind."""

from __future__ import annotations

import threading

import pytest

from tests.durability.copying import StuckCallError, run_with_limit


def test_a_call_that_does_not_end_is_left_behind() -> None:
    ended = threading.Event()
    try:
        with pytest.raises(StuckCallError, match="has not ended within 0 s"):
            run_with_limit(ended.wait, 0.01)
    finally:
        ended.set()


def test_a_call_that_ends_is_waited_for() -> None:
    done: list[str] = []
    run_with_limit(lambda: done.append("sent"), 60)

    assert done == ["sent"]


def test_the_error_of_a_call_is_raised() -> None:
    def fail() -> None:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        run_with_limit(fail, 60)
