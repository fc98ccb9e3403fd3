"""`kwire.spark.share_timeline` gives the rows of `kwire.capture.share_timeline`, and the plot what they say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kwire.capture import share_timeline as plain
from kwire.capture.pipeline import rows
from kwire.spark import here, share_plot
from kwire.spark.share_panel import STATES, Reading, SharePanel
from kwire.spark.share_timeline import local_timeline, share_timeline
from tests.kwire.capture.wire import CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = [CAPTURES / "small_share.pcap", CAPTURES / "small_jshare.pcap"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def in_spark(spark: SparkSession, files: list[Path]) -> DataFrame:
    def level(name: str) -> DataFrame:
        return spark.read.format("kafka_capture").option("level", name).load([str(file) for file in files])

    return share_timeline(level("messages"), level("flows"))


def in_micros(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the plain library, with its times cut to Spark's microseconds."""
    return {
        name: value // 1_000 * 1_000 if value is not None and name.endswith("_ts") else value
        for name, value in row.items()
    }


@pytest.mark.spark
def test_spark_gives_the_rows_of_the_plain_library_and_their_plot(spark: SparkSession) -> None:
    timeline = in_spark(spark, FILES).persist()
    found = [row.asDict() for row in timeline.orderBy("group_id", "topic", "partition", "number").collect()]
    first = min(row["ts"] for row in found)
    start_us = (first.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    drawn = share_plot.panels(timeline, start_us=start_us, step_us=10_000, bins=10)
    timeline.unpersist()

    expected = plain.share_timeline(
        [in_micros(row) for file in FILES for row in rows(file, "messages")],
        [in_micros(row) for file in FILES for row in rows(file, "flows")],
    )
    for row in found:
        row["ts"] = (row["ts"].replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) * 1_000
    assert found == expected
    assert len(found) > 50

    panels = {(panel.group, panel.topic, panel.partition): panel for panel in drawn}
    assert set(panels) == {("sg1", "t-share", 0), ("sg1", "t-share", 1), ("sg2", "t-share2", 0)}
    one = panels["sg1", "t-share", 0]
    # A step of the page is cut into four.
    assert (one.step_us, len(one.peaks)) == (2_500, 40)
    last = {name: values[-1] for name, values in one.series.items()}
    assert last == {"acquired": 0, "available": 98, "acknowledged": 0, "archived": 0}
    assert max(one.peaks) == max(row["acquired"] for row in found if (row["topic"], row["partition"]) == ("t-share", 0))
    assert one.starts[-1] == one.end
    assert one.ends[-1] == max(row["end_offset"] for row in found if (row["topic"], row["partition"]) == ("t-share", 0))
    assert one.transitions == sum((row["topic"], row["partition"]) == ("t-share", 0) for row in found)
    assert (panels["sg1", "t-share", 1].begin, panels["sg1", "t-share", 1].end) == (102, 204)


@pytest.mark.spark
def test_levels_that_this_process_has_give_the_same_timeline(spark: SparkSession) -> None:
    names = [str(file) for file in FILES]
    messages, flows = (here.table(names, {"level": level}) for level in ("messages", "flows"))

    order = ("group_id", "topic", "partition", "number")
    found = here.frame(spark, local_timeline(messages, flows)).orderBy(*order).collect()
    assert found == in_spark(spark, FILES).orderBy(*order).collect()


def panel(**more: Any) -> SharePanel:
    """Four steps of a share partition."""
    states = dict(zip(STATES, ([0, 5, 5, 0], [0, 0, 2, 2], [0, 0, 0, 1], [0, 0, 1, 0]), strict=True))
    made = {
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
    return SharePanel(**{**made, **more})


def test_the_plot_has_a_small_one_for_each_share_partition_and_its_text_stays_text() -> None:
    made = share_plot.multiples([panel(), panel()])

    assert made.count("<svg class=") + made.count('<svg role="img"') == 2
    assert "<b>" not in made
    assert "&lt;b&gt;: orders-3" in made
    assert "start 0 to 12; at most 8 records in flight; delivered up to 4 times." in made
    assert made.count("acquired: 5</title>") == 2


def test_the_plot_tells_offsets_states_the_most_within_a_step_and_where_the_state_began_anew() -> None:
    made = share_plot.multiples([panel()])

    for told in (
        "00:00:01  start 0, end 5<",
        "00:00:03  start 12, end 15<",
        "00:00:02  available: 2<",
        "00:00:03  acknowledged: 1<",
        "00:00:02  archived: 1<",
        "00:00:02  at most acquired within the step: 9<",
        "00:00:03  a leader has read the state anew<",
    ):
        assert told in made, told
    assert "begins anew" not in share_plot.multiples([panel(readings=[])])
