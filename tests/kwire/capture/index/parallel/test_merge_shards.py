"""Limits that apply to all flows of a file are checked over all shards."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.index import index_writer
from kwire.capture.index.flows import flow_builder, undecided_flows
from kwire.capture.index.parallel import merge_shards
from tests.support.captures.range_indexes import (
    SPAN_SIZE,
    assert_indexes_equal,
    build_by_size,
)

pytestmark = pytest.mark.slow


def test_the_limit_of_pending_requests_is_checked_over_all_shards(
    many_connections: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (flow_builder, merge_shards):
        monkeypatch.setattr(module, "LIMITS", flow_builder.LIMITS._replace(unanswered_size=5_000))
    expected = index.build_index(many_connections)

    assert "waiting" in {flow.unclean_reason for flow in expected.flows}
    assert_indexes_equal(build_by_size(many_connections, tmp_path, SPAN_SIZE * 4, 4), expected)


@pytest.mark.parametrize(("range_size", "count"), [(SPAN_SIZE, 2), (7 * SPAN_SIZE, 5)])
def test_connections_that_began_before_the_capture_are_merged_from_their_shards(
    midstream_connections: Path, range_size: int, count: int, tmp_path: Path
) -> None:
    expected = index.build_index(midstream_connections)

    assert expected.is_clean.mean() > 0.8
    assert_indexes_equal(build_by_size(midstream_connections, tmp_path, range_size, count), expected)


def test_the_limit_of_undecided_flows_is_checked_over_all_shards(
    midstream_connections: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = index.build_index(midstream_connections)
    monkeypatch.setattr(merge_shards, "LIMITS", flow_builder.LIMITS._replace(undecided_size=0))
    monkeypatch.setattr(undecided_flows, "HELD_SIZE_MAX", 0)
    expected = index.build_index(midstream_connections)

    assert expected.is_clean.sum() < before.is_clean.sum()
    assert_indexes_equal(build_by_size(midstream_connections, tmp_path, SPAN_SIZE * 4, 3), expected)


def test_the_connections_of_all_shards_together_may_exceed_the_limit(
    many_connections: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_writer, "OPEN_MAX", 5)
    expected = index.build_index(many_connections)

    assert "clean" not in {flow.unclean_reason for flow in expected.flows}
    assert_indexes_equal(build_by_size(many_connections, tmp_path, SPAN_SIZE * 4, 3), expected)
