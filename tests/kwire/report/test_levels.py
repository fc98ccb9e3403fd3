"""The levels of a report's captures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.report import levels, local_tables
from tests.support.captures.capture_files import CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = [str(CAPTURES / "small_share.pcap")]


def test_captures_above_the_limit_and_missing_ones_are_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    assert levels.decode_levels([*FILES, str(CAPTURES / "no such capture.pcap")], None) is None
    monkeypatch.setattr(levels, "LOCAL_SIZE_MAX", 100)
    assert levels.decode_levels(FILES, None) is None


def test_small_captures_are_decoded_without_a_session_once() -> None:
    decoded = levels.decode_levels(FILES, {"payload": "true"})

    assert decoded is not None
    assert decoded.tables["messages"].num_rows >= 44
    assert decoded.tables["records"].num_rows > 0
    assert decoded.transitions.num_rows > 0
    assert set(decoded.tables) == set(levels.LEVEL_OPTIONS)


@pytest.mark.spark
def test_levels_that_are_decoded_are_not_decoded_again(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = levels.decode_levels(FILES, None)
    assert decoded is not None
    monkeypatch.setattr(local_tables, "read_table", None)

    frames = levels.read_levels(spark, FILES, None, decoded)

    assert frames.messages.count() == decoded.tables["messages"].num_rows
    assert frames.timeline().count() == decoded.transitions.num_rows
    assert frames.records is None
