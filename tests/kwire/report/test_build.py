"""Time bins of a report."""

from __future__ import annotations

import pytest

from kwire.report.build import BINS, time_bins
from kwire.report.row_types import FileRow

DAY_US = 86_400_000_000


@pytest.mark.parametrize("length_us", [0, 1, 47, 48, 5_000, 47_300_000, 3_600_000_000, 40 * DAY_US, 30_000 * DAY_US])
def test_time_bins_cover_every_capture_in_a_limited_number(length_us: int) -> None:
    first = 1_795_257_723_456_789

    start, step, bins = time_bins([FileRow("a", 1, 1, 1, first, first + length_us), FileRow("b", 0, 0, 0, None, None)])

    assert start <= first
    assert start + bins * step > first + length_us
    assert bins <= BINS + 2
