"""`share_timeline` of a mock cluster with leader changes, restarts and changes by administrators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from kwire.capture.model import Row
from kwire.capture.reader import read_rows
from kwire.capture.share_timeline import share_timeline
from kwire.uuids import to_text
from mockbroker import Cluster
from mockbroker.broker.inspection import HistoryEvent, RecordState
from mockbroker.server import Server
from mockbroker.state.share.share_history import UNBOUNDED, HistoryEntry
from tests.support.brokers.cluster_targets import MockClusterTarget
from tests.support.brokers.cluster_workload import (
    ADMIN_CHANGES,
    GROUPS,
    LEADER_CHANGES,
    NODES,
    PARTITIONS,
    RECORD_DELETIONS,
    TOPIC,
    TRANSACTIONS,
    ClusterWorkload,
)
from tests.support.brokers.share_workload import LOCK_MS
from tests.support.captures.record_histories import RecordHistories, as_int, histories_of_entries, histories_of_timeline

STEPS = 120
Place = tuple[str, str, int]


def histories_of(server: Server, workload: ClusterWorkload) -> dict[Place, RecordHistories]:
    """The history of the records of every share partition, with those of deleted topics."""
    by_key: dict[tuple[str, bytes, int], list[HistoryEntry]] = defaultdict(list)
    for note in server.core.state.broker_storage.share_history:
        group, topic, index = cast(tuple[str, bytes, int], note.key)
        by_key[group, topic, index].append(note)
    found = {}
    for (group, topic, index), notes in by_key.items():
        topic_id = to_text(topic)
        until_ms = workload.deleted_topics.get(topic_id, UNBOUNDED)
        if histories_by_offset := histories_of_entries(of_leaders(note for note in notes if note.at_ms <= until_ms)):
            found[group, topic_id, index] = histories_by_offset
    return found


def of_leaders(notes: Iterable[HistoryEntry]) -> Iterator[HistoryEntry]:
    """Without changes in the memory of a previous leader, where locks still expire."""
    acquired: dict[int, tuple[str, int]] = {}
    for note in notes:
        offsets = range(note.first, note.last + 1) if note.last < UNBOUNDED else ()
        if note.event is HistoryEvent.LOADED:
            acquired = {} if note.last == UNBOUNDED else acquired
        elif note.event is HistoryEvent.EXPIRED:
            member_id, since_ms = acquired.get(note.first, ("", 0))
            if member_id != note.member_id or note.at_ms < since_ms + LOCK_MS:
                continue
        for offset in offsets:
            acquired[offset] = (note.member_id, note.at_ms) if note.state is RecordState.ACQUIRED else ("", 0)
        yield note


def timelines_of(path: Path, target: MockClusterTarget) -> dict[Place, list[Row]]:
    messages, flows = (
        [target.with_cluster_time(row) for row in read_rows(path, level)] for level in ("messages", "flows")
    )
    found: dict[Place, list[Row]] = defaultdict(list)
    for row in share_timeline(messages, flows):
        found[str(row["group_id"]), str(row["topic_id"]), as_int(row["partition"])].append(row)
    return found


class WorkloadResult(NamedTuple):
    """The share partitions of the mock at the end, and the timeline of the capture."""

    histories: dict[Place, RecordHistories]
    timelines: dict[Place, list[Row]]
    described: dict[Place, int]
    """Start offsets, by DescribeShareGroupOffsets."""
    log_starts: dict[tuple[str, int], int]
    """The highest log start that was requested."""


def run_workload(path: Path, seed: int, actions: tuple[str, ...]) -> WorkloadResult:
    properties = {"group.share.record.lock.duration.ms": LOCK_MS, "default.replication.factor": NODES}
    cluster = Cluster(nodes=NODES, topics={TOPIC: PARTITIONS}, properties=properties, seed=seed, capture=path)
    with cluster, ClusterWorkload(target := MockClusterTarget(cluster), seed, actions) as workload:
        workload.run(STEPS)
        described = {
            (group, topic["topicId"], row["partitionIndex"]): row["startOffset"]
            for group in GROUPS
            for topic in workload.describe(group)["groups"][0]["topics"]
            for row in topic["partitions"]
        }
        histories = cluster.run(lambda server: histories_of(server, workload))
        return WorkloadResult(histories, timelines_of(path, target), described, workload.log_starts)


def compare(result: WorkloadResult) -> None:
    """Compare timeline and history, without records below a log start: no message shows when they are removed."""
    for partition_key, expected in result.histories.items():
        found = histories_of_timeline(result.timelines[partition_key])
        cut = result.log_starts.get(partition_key[1:], 0)
        for offset in sorted(expected.keys() | found.keys()):
            assert offset < cut or found.get(offset) == expected.get(offset), f"{partition_key}, offset {offset}"
    assert result.histories


@pytest.mark.parametrize("seed", range(8))
def test_the_timeline_is_the_history_with_leader_changes(seed: int, tmp_path: Path) -> None:
    compare(run_workload(tmp_path / "share.pcapng", seed, LEADER_CHANGES))


@pytest.mark.parametrize("seed", range(8))
def test_the_timeline_is_the_history_with_changes_by_administrators(seed: int, tmp_path: Path) -> None:
    result = run_workload(tmp_path / "share.pcapng", seed, ADMIN_CHANGES)

    compare(result)
    assert {
        partition_key: result.timelines[partition_key][-1]["stored_start_offset"] for partition_key in result.described
    } == result.described


@pytest.mark.parametrize("seed", range(4))
def test_the_timeline_is_the_history_above_the_log_start(seed: int, tmp_path: Path) -> None:
    compare(run_workload(tmp_path / "share.pcapng", seed, RECORD_DELETIONS))


@pytest.mark.client
@pytest.mark.parametrize("seed", range(3))
def test_the_timeline_has_the_deliveries_with_aborted_transactions(seed: int, tmp_path: Path) -> None:
    compare(run_workload(tmp_path / "share.pcapng", seed, TRANSACTIONS))
