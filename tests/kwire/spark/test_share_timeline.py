"""`kwire.spark.share_timeline` gives the rows of `kwire.capture.share_timeline`, and the plot what they say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kwire.capture import share_timeline as plain
from kwire.capture.pipeline import rows
from kwire.spark import share_plot
from kwire.spark.share_plot import SharePanel
from kwire.spark.share_timeline import share_timeline
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
    assert panels["sg1", "t-share", 0].series == {
        "acquired": [0, 0, 98, *[0] * 7],
        "available again": [0, 0, 0, *[98] * 7],
        "settled, waiting for the start": [0] * 10,
    }
    assert (panels["sg1", "t-share", 1].begin, panels["sg1", "t-share", 1].end) == (102, 204)


def test_the_plot_has_a_small_one_for_each_share_partition_and_its_text_stays_text() -> None:
    states = dict(zip(share_plot.STATES, ([0, 5, 5, 0], [0, 0, 2, 2], [0, 0, 0, 1]), strict=True))
    one = SharePanel("<b>", "orders", 3, 0, 1_000_000, states, begin=0, end=12, deliveries_max=4)
    made = share_plot.multiples([one, one])

    assert made.count("<svg class=") + made.count('<svg role="img"') == 2
    assert "<b>" not in made
    assert "&lt;b&gt;: orders-3" in made
    assert "start 0 to 12; at most 7 records in flight; delivered up to 4 times." in made
    assert made.count("acquired: 5</title>") == 2
