"""Plots of share partitions over time."""

from __future__ import annotations

from typing import Any

from kwire.capture.share_timeline.events import CAUSES
from kwire.report.model import Reading, SharePanel
from kwire.report.plots.share_partitions import STATES, plot_share_partitions


def panel(**more: Any) -> SharePanel:
    """Four steps of a share partition."""
    states = dict(zip(STATES, ([0, 5, 5, 0], [0, 0, 2, 2], [0, 0, 0, 1], [0, 0, 1, 0]), strict=True))
    plot = {
        "group": "<b>",
        "topic": "orders",
        "partition": 3,
        "start_us": 0,
        "step_us": 1_000_000,
        "series": states,
        "peaks": [0, 5, 9, 0],
        "starts": [None, 0, 0, 12],
        "ends": [None, 5, 8, 15],
        "readings": [Reading(3, "load")],
        "begin": 0,
        "end": 12,
        "deliveries_max": 4,
        "transitions": 9,
        "inferred": 2,
    }
    return SharePanel(**{**plot, **more})


def test_there_is_a_plot_for_each_share_partition_and_text_is_escaped() -> None:
    plot = plot_share_partitions([panel(), panel()])

    assert plot.count("<svg class=") + plot.count('<svg role="img"') == 2
    assert "<b>" not in plot
    assert "&lt;b&gt;: orders-3" in plot
    assert "start 0 to 12; at most 9 records in flight; highest delivery count 4." in plot
    assert plot.count("acquired: 5</title>") == 2


def test_the_plot_shows_offsets_states_peaks_and_reads_of_the_state() -> None:
    plot = plot_share_partitions([panel()])

    for text in (
        "00:00:01  start 0, end 5<",
        "00:00:03  start 12, end 15<",
        "00:00:02  available: 2<",
        "00:00:03  acknowledged: 1<",
        "00:00:02  archived: 1<",
        "00:00:02  at most acquired within the step: 9<",
        f"00:00:03  {CAUSES['load']}<",
    ):
        assert text in plot, text
    assert "state is read or reset" not in plot_share_partitions([panel(readings=[])])


def test_what_happens_within_one_step_is_in_the_numbers_beside_the_plot() -> None:
    """All records were acquired, acknowledged and passed before the first step ended."""
    states = {name: [0, 0] for name in STATES}
    plot = plot_share_partitions([panel(series=states, peaks=[20, 0], starts=[40, 40], ends=[40, 40], end=40)])

    assert "start 0 to 40; at most 20 records in flight" in plot
    assert ">20 records</text>" in plot
    assert ">offsets 0 to 40</text>" in plot
