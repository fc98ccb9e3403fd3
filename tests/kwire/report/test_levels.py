"""The levels of a report's captures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.report import level_files, levels, local_tables
from kwire.spark import spark_session
from tests.support.captures.capture_files import CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = [str(CAPTURES / "small_share.pcap")]
SERIES = [*FILES, str(CAPTURES / "mock_share.pcapng")]


def test_large_captures_of_a_cluster_and_missing_ones_are_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    assert levels.decode_levels([*FILES, str(CAPTURES / "no such capture.pcap")], None, is_local=True) is None
    monkeypatch.setattr(levels, "LOCAL_SIZE_MAX", 100)
    assert levels.decode_levels(FILES, None, is_local=False) is None


@pytest.mark.spark
def test_levels_in_files_are_those_of_spark_s_workers(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "LOCAL_SIZE_MAX", 100)
    options = {"payload": "true"}
    monkeypatch.setattr(spark_session, "is_local", lambda spark: False)
    of_workers = levels.read_levels(spark, SERIES, options)
    decoded = levels.decode_levels(SERIES, options, is_local=True)
    assert isinstance(decoded, level_files.LevelFiles)

    of_files = levels.read_levels(spark, SERIES, options, decoded)

    assert of_workers.decoded is None
    for name in levels.LEVEL_OPTIONS:
        expected, rows = getattr(of_workers, name), getattr(of_files, name)
        assert rows.schema.fieldNames() == expected.schema.fieldNames()
        assert [column.dataType for column in rows.schema] == [column.dataType for column in expected.schema]
        assert sorted(map(str, rows.collect())) == sorted(map(str, expected.collect())) != []
    timelines = [
        frames.timeline().orderBy("group_id", "topic_id", "partition", "number") for frames in (of_workers, of_files)
    ]
    assert timelines[1].columns == timelines[0].columns
    assert timelines[1].collect() == timelines[0].collect() != []
    of_files.close()
    of_workers.close()
    assert not decoded.folder.exists()


@pytest.mark.spark
def test_a_timeline_of_too_many_messages_is_left_to_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "LOCAL_SIZE_MAX", 100)
    monkeypatch.setattr(level_files, "TIMELINE_ROWS_MAX", 10)
    frames = levels.read_levels(spark, FILES, None)

    transitions = frames.timeline().count()
    frames.close()

    assert isinstance(frames.decoded, level_files.LevelFiles)
    assert frames.decoded.timeline_file() is None
    assert transitions > 0


def test_small_captures_are_decoded_without_a_session_once() -> None:
    decoded = levels.decode_levels(FILES, {"payload": "true"}, is_local=True)

    assert isinstance(decoded, levels.DecodedLevels)
    assert decoded.tables["messages"].num_rows >= 44
    assert decoded.tables["records"].num_rows > 0
    assert decoded.transitions.num_rows > 0
    assert set(decoded.tables) == set(levels.LEVEL_OPTIONS)


@pytest.mark.spark
def test_levels_that_are_decoded_are_not_decoded_again(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = levels.decode_levels(FILES, None, is_local=True)
    assert isinstance(decoded, levels.DecodedLevels)
    monkeypatch.setattr(local_tables, "read_table", None)

    frames = levels.read_levels(spark, FILES, None, decoded)

    assert frames.messages.count() == decoded.tables["messages"].num_rows
    assert frames.timeline().count() == decoded.transitions.num_rows
    assert frames.records is None
