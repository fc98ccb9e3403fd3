"""When a percentile may be shown: of a few values it would be one of them under another name."""

from __future__ import annotations

#: The number of values from which a percentile is shown. Below 20 values p95 is the maximum, below 100 p99 is.
COUNT_MIN = {50: 5, 95: 20, 99: 100}

NOTE = ", ".join(f"p{percentile} from {count}" for percentile, count in COUNT_MIN.items())


def is_meaningful(percentile: int, count: int) -> bool:
    """Whether this percentile of so many values says more than their maximum."""
    return count >= COUNT_MIN[percentile]


def shown(percentile: int, value: int | None, count: int) -> int | None:
    """The percentile of so many values; None if it is not shown."""
    return value if is_meaningful(percentile, count) else None
