"""From how many values on percentiles are shown."""

from __future__ import annotations

import pytest

from kwire.report import percentiles


@pytest.mark.parametrize(("percentile", "count"), [(50, 5), (95, 20), (99, 100)])
def test_a_percentile_of_too_few_values_is_not_shown(percentile: int, count: int) -> None:
    assert percentiles.shown(percentile, 7, count - 1) is None
    assert percentiles.shown(percentile, 7, count) == 7


def test_a_percentile_that_is_not_shown_would_be_the_maximum() -> None:
    """The nearest rank of p95 and p99."""
    for percentile in (95, 99):
        smallest = percentiles.COUNT_MIN[percentile]
        assert -(-(smallest - 1) * percentile // 100) == smallest - 1
        assert -(-smallest * percentile // 100) < smallest
