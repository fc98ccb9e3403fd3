"""Round lengths of time, and round times: the steps of time bins and the ticks of every time axis.

Times are microseconds since 1970.
"""

from __future__ import annotations

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US

_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)
# Every length up to a day divides a day, so that its multiples are round times of day.
STEPS_US = (
    *(unit * 10**power for power in range(6) for unit in (1, 2, 5)),
    *(step * SECOND_US for step in _STEPS_S),
    *(days * 10**power * DAY_US for power in range(6) for days in (2, 5, 10)),
)


def round_step(length_us: int) -> int:
    """The next round length of time, microseconds: that of `STEPS_US`; beyond them, the length itself."""
    return next((step for step in STEPS_US if step >= length_us), length_us)


def time_bins(first_us: int, last_us: int, count: int) -> tuple[int, int, int]:
    """Start, length and number of about `count` time bins at round times that contain both times."""
    step = round_step(max(1, (last_us - first_us) // count))
    start = first_us - first_us % step
    return start, step, (last_us - start) // step + 1


def round_ticks(first_us: int, last_us: int, ticks_max: int) -> tuple[int, list[int]]:
    """The finest round step with at most `ticks_max` round times from the first time to the last, and these times."""
    length_us = max(1, (last_us - first_us) // (ticks_max + 1))
    while True:
        step = round_step(length_us)
        begin = -(-first_us // step) * step
        if (last_us - begin) // step + 1 <= ticks_max:
            return step, list(range(begin, last_us + 1, step))
        length_us = step + 1
