"""The share timeline computed by Spark equals that of the library, and its plot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kwire.capture import share_timeline as plain
from kwire.capture.reader import read_rows
from kwire.report import local_tables
from kwire.report.share_panels import compute_panels
from kwire.spark.analyses.share_timeline import local_timeline, share_timeline
from tests.support.captures.capture_files import CAPTURES

FILES = [CAPTURES / "small_share.pcap", CAPTURES / "small_jshare.pcap"]


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def in_spark(spark: SparkSession, files: list[Path]) -> DataFrame:
    def level(name: str) -> DataFrame:
        return spark.read.format("kafka_capture").option("level", name).load([str(file) for file in files])

    return share_timeline(level("messages"), level("flows"))


def in_micros(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the library, with times truncated to Spark's microseconds."""
    return {
        name: value // 1_000 * 1_000 if value is not None and name.endswith("_ts") else value
        for name, value in row.items()
    }


@pytest.mark.spark
def test_spark_gives_the_rows_of_the_plain_library_and_their_plot(spark: SparkSession) -> None:
    timeline = in_spark(spark, FILES).persist()
    found = [row.asDict() for row in timeline.orderBy("group_id", "topic", "partition", "number").collect()]
    drawn = compute_panels(timeline)
    timeline.unpersist()

    expected = plain.share_timeline(
        [in_micros(row) for file in FILES for row in read_rows(file, "messages")],
        [in_micros(row) for file in FILES for row in read_rows(file, "flows")],
    )
    for row in found:
        row["ts"] = (row["ts"].replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) * 1_000
    assert found == expected
    assert len(found) > 50

    panels = {(panel.group, panel.topic, panel.partition): panel for panel in drawn}
    assert set(panels) == {("sg1", "t-share", 0), ("sg1", "t-share", 1), ("sg2", "t-share2", 0)}
    one = panels["sg1", "t-share", 0]
    # The plot extends over the transitions, not over the whole capture.
    times_us = [row["ts"] // 1_000 for row in found]
    assert one.start_us <= min(times_us) < one.start_us + one.step_us
    assert one.start_us + (len(one.peaks) - 1) * one.step_us <= max(times_us)
    assert one.start_us + len(one.peaks) * one.step_us > max(times_us)
    last = {name: values[-1] for name, values in one.series.items()}
    assert last == {"acquired": 0, "available": 98, "acknowledged": 0, "archived": 0}
    assert max(one.peaks) == max(row["acquired"] for row in found if (row["topic"], row["partition"]) == ("t-share", 0))
    assert one.starts[-1] == one.end
    assert one.ends[-1] == max(row["end_offset"] for row in found if (row["topic"], row["partition"]) == ("t-share", 0))
    assert one.transitions == sum((row["topic"], row["partition"]) == ("t-share", 0) for row in found)
    assert (panels["sg1", "t-share", 1].begin, panels["sg1", "t-share", 1].end) == (102, 204)


@pytest.mark.spark
def test_local_tables_give_the_same_timeline(spark: SparkSession) -> None:
    names = [str(file) for file in FILES]
    messages, flows = (local_tables.read_table(names, {"level": level}) for level in ("messages", "flows"))

    order = ("group_id", "topic", "partition", "number")
    found = local_tables.to_data_frame(spark, local_timeline(messages, flows)).orderBy(*order).collect()
    assert found == in_spark(spark, FILES).orderBy(*order).collect()
