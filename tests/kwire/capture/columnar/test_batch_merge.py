"""Outcomes that are no exchanges are taken in parts of limited size, however many a capture has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.capture.columnar import batch_merge
from kwire.capture.columnar.batch_merge import NO_TIME_LIMIT, divide_outcomes
from kwire.capture.kafka.exchange import Outcome
from kwire.capture.model import Flow, StreamGap

FLOW = Flow(((b"a", 1), (b"b", 2)), 0, "")


def test_no_more_outcomes_are_taken_than_become_rows_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_merge, "ROWS_MAX", 3)
    taken = 0

    def outcomes() -> Iterator[Outcome]:
        nonlocal taken
        for ts in range(10):
            taken += 1
            yield StreamGap(FLOW, True, ts, 0, 1, 0, "lost", "")

    parts = [(len(part), reached, taken) for part, reached in divide_outcomes(outcomes())]

    assert parts == [(3, 2, 3), (3, 5, 6), (3, 8, 9), (1, NO_TIME_LIMIT, 10)]


def test_a_part_is_returned_where_no_outcome_is_left() -> None:
    assert list(divide_outcomes(iter(()))) == [([], NO_TIME_LIMIT)]
