"""Credits of mutations. test_throttles.py has Kafka's own numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mockbroker.state.quotas.token_bucket import TokenBucket
from mockbroker.state.quotas.windowed_rate import QuotaWindows

_START_MS = 1_790_000_000_000


def test_a_new_bucket_is_full_and_is_refilled_at_the_rate_of_the_quota() -> None:
    bucket = TokenBucket(QuotaWindows(100, 1000))
    bucket.record(560, 5, _START_MS)

    # The example of KIP-599: 12 seconds until there are credits again.
    assert bucket.measure(5, _START_MS) == -60
    assert bucket.measure(5, _START_MS + 12_000) == 0
    assert bucket.measure(5, _START_MS + 3_600_000) == 500


@given(
    events=st.lists(st.tuples(st.integers(0, 20_000), st.floats(0, 500)), max_size=60),
    quota=st.sampled_from([0.5, 5.0, 1000.0]),
)
def test_no_more_is_used_than_the_bucket_holds_and_time_refills(events: list[tuple[int, float]], quota: float) -> None:
    windows = QuotaWindows()
    bucket, now_ms, used = TokenBucket(windows), _START_MS, 0.0
    for passed_ms, value in events:
        now_ms += passed_ms
        if bucket.measure(quota, now_ms) >= value:
            bucket.record(value, quota, now_ms)
            used += value

        burst = quota * windows.span_ms / 1000
        assert 0 <= bucket.measure(quota, now_ms) <= burst
        assert used <= burst + quota * (now_ms - _START_MS) / 1000 + 1e-6
