"""The section of calls that wait: ratios are above 1 where mockbroker is better, for times as for rates."""

from __future__ import annotations

from tools.bench.operations.__main__ import _CASES, _render_operations, _summarize_operations


def test_less_time_and_more_calls_are_both_better() -> None:
    values = {case: {"mockbroker": [50.0], "kfake": [100.0]} for case, _, _ in _CASES}

    results = {(result.case, result.peer): result for result in _summarize_operations(values, "mockbroker")}
    text = _render_operations(values, 1)

    assert results["synchronous produce, p50", "kfake"].ratio == 2.0
    assert results["commits of a classic group", "kfake"].ratio == 0.5
    assert results["commits of a classic group", "mockbroker"].ratio is None
    assert "| synchronous produce, p99, us | 50 [50 … 50] | 100 [100 … 100] | 2.00 |" in text
    assert "| transactions of 100 records, 1/s | 50 [50 … 50] | 100 [100 … 100] | 0.50 |" in text
