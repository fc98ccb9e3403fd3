"""Rates over windows. test_throttles.py has Kafka's own numbers; these are the rules behind them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mockbroker.state.quotas.windowed_rate import QuotaWindows, WindowedRate


def test_windows_before_the_first_one_count_as_empty_ones() -> None:
    rate = WindowedRate(QuotaWindows(11, 1000))
    rate.record(50, 1000)

    assert rate.window_ms(1000) == 10_000
    assert rate.measure(1000) == 5.0
    assert rate.window_ms(1999) == 10_999
    assert rate.window_ms(11_999) == 10_999


def test_a_value_counts_until_all_windows_have_passed_since_the_last_one_beside_it() -> None:
    rate = WindowedRate(QuotaWindows(2, 1000))
    rate.record(6, 0)
    rate.record(6, 500)

    assert rate.measure(2499) == 12 / 2.499
    assert rate.measure(2500) == 0.0


def test_a_single_window_begins_with_a_millisecond() -> None:
    rate = WindowedRate(QuotaWindows(1, 1000))
    empty = rate.measure(0)
    rate.record(1, 0)

    assert (empty, rate.measure(0), rate.measure(2)) == (0, 1000, 500)


@given(
    events=st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 1000)), max_size=80),
    count=st.integers(2, 12),
    size_ms=st.integers(1, 3000),
)
def test_the_rate_is_at_most_what_was_recorded_by_the_shortest_time(
    events: list[tuple[int, float]], count: int, size_ms: int
) -> None:
    windows = QuotaWindows(count, size_ms)
    rate, now_ms, recorded = WindowedRate(windows), 0, [(0, 0.0)]
    for passed_ms, value in events:
        now_ms += passed_ms
        rate.record(value, now_ms)
        recorded.append((now_ms, value))
        # A window may be as long as its size, and is kept for the span of all windows after its last value.
        recent = sum(value for at_ms, value in recorded if at_ms > now_ms - windows.span_ms - size_ms)
        shortest_s = (windows.span_ms - size_ms) / 1000

        assert 0 <= rate.measure(now_ms) <= recent / shortest_s + 1e-6
        assert windows.span_ms - size_ms <= rate.window_ms(now_ms) <= windows.span_ms + size_ms
