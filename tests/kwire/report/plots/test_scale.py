"""Positions on logarithmic scales."""

from __future__ import annotations

from kwire.report.plots.scale import latency_scale


def test_a_latency_of_zero_is_at_the_begin_of_the_scale() -> None:
    scale = latency_scale([0, 0])

    assert (scale.x(0), scale.x(1), scale.x(10)) == ("1.5%", "1.5%", "98.5%")
