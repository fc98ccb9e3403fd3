"""Limits that apply to all flows of a file are checked over all shards."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.index import index_writer
from kwire.capture.index.flows import flow_builder, midstream_flows
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

    assert len(expected.columns["-2.completed_by"])
    assert len(expected.columns[f"{len(expected.spans) + 1}.fragments.at"])
    assert_indexes_equal(build_by_size(midstream_connections, tmp_path, range_size, count), expected)


@pytest.mark.parametrize(("limit", "name"), [("midstream_size", "BUFFERED_SIZE_MAX"), ("undecided", "UNDECIDED_MAX")])
def test_the_limits_of_midstream_flows_are_checked_over_all_shards(
    limit: str, name: str, midstream_connections: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = index.build_index(midstream_connections)
    monkeypatch.setattr(merge_shards, "LIMITS", flow_builder.LIMITS._replace(**{limit: 0}))
    monkeypatch.setattr(midstream_flows, name, 0)
    expected = index.build_index(midstream_connections)

    reasons, reasons_before = ([flow.unclean_reason for flow in each.flows] for each in (expected, before))
    assert (reasons != reasons_before) == (limit == "midstream_size")
    assert_indexes_equal(build_by_size(midstream_connections, tmp_path, SPAN_SIZE * 4, 3), expected)


def test_the_connections_of_all_shards_together_may_exceed_the_limit(
    many_connections: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_writer, "OPEN_MAX", 5)
    expected = index.build_index(many_connections)

    assert "clean" not in {flow.unclean_reason for flow in expected.flows}
    assert_indexes_equal(build_by_size(many_connections, tmp_path, SPAN_SIZE * 4, 3), expected)
