"""Clients are throttled as by a real Apache Kafka 4.4.0: the same errors, bytes and muted channels, and throttle times
that differ by no more than the latency of the machine.

`python -m tools.oracle.quota_traffic record` made the recording.
"""

from __future__ import annotations

import pytest

from tools.oracle.quota_traffic import Observation, find_differences, load_recording, run_mockbroker


def test_requests_over_quotas_are_throttled_as_by_kafka() -> None:
    recording = load_recording()

    assert find_differences(recording, run_mockbroker(recording)) == []


def test_the_recording_has_every_kind_of_throttling() -> None:
    recording = load_recording()
    rows = [row for observations in recording.values() for row in observations]

    assert sum(row.throttle_ms > 0 for row in rows) > 20
    assert sum(row.is_closed for row in rows) == 5
    assert sum(89 in row.codes for row in rows) > 3
    # Empty responses to throttled fetches.
    fetches = [row for name in ("fetch-rate", "fetch-session") for row in recording[name]]
    assert sum(row.throttle_ms > 0 and row.size == 0 for row in fetches) > 3


@pytest.mark.parametrize(
    "changed",
    [
        Observation(0, 0, 2_500, (0,), 10),
        Observation(0, 0, 0, (0,), 10),
        Observation(0, 0, 2_000, (89,), 10),
        Observation(0, 0, 2_000, (0,), 0),
        Observation(0, 3_000, 2_000, (0,), 10),
        Observation(0, 0, 2_000, (0,), 10, is_closed=True),
    ],
)
def test_a_difference_is_reported(changed: Observation) -> None:
    expected = {"scenario": [Observation(0, 5, 2_000, (0,), 10)]}

    assert find_differences(expected, {"scenario": [Observation(0, 0, 2_010, (0,), 10)]}) == []
    assert len(find_differences(expected, {"scenario": [changed]})) == 1
