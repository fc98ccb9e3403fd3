"""`share_timeline` of a capture of the mock equals the history of the mock, record by record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from kwire.capture.model import Row
from kwire.capture.reader import read_rows
from kwire.capture.share_timeline import share_timeline
from mockbroker import Cluster
from mockbroker.broker.inspection import RecordState, SharePartitionView
from tests.support.brokers.captured_share_members import produce
from tests.support.brokers.share_workload import (
    GROUP,
    LOCK_MS,
    PARTITIONS,
    TOPIC,
    MockTarget,
    ShareWorkload,
    wait_until,
)
from tests.support.captures.record_histories import as_int, histories_of_timeline, histories_of_transitions

STEPS = 120
SEEDS = 12


def captured(path: Path, target: MockTarget) -> Mapping[int, list[Row]]:
    """The timeline of each partition of the group."""
    messages = [target.with_cluster_time(row) for row in read_rows(path, "messages")]
    flows = [target.with_cluster_time(row) for row in read_rows(path, "flows")]
    by_partition: dict[int, list[Row]] = defaultdict(list)
    for row in share_timeline(messages, flows):
        by_partition[as_int(row["partition"])].append(row)
    return by_partition


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_timeline_is_the_history_of_the_mock(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "share.pcapng"
    properties = {"group.share.record.lock.duration.ms": LOCK_MS}
    cluster = Cluster(topics={TOPIC: PARTITIONS}, properties=properties, seed=seed, capture=path)
    with cluster, ShareWorkload(target := MockTarget(cluster), seed) as workload:
        workload.run(STEPS)
        views = [_view(cluster, partition) for partition in range(PARTITIONS)]
        timeline = captured(path, target)

    for view in views:
        transitions = timeline[view.partition]
        found, expected = histories_of_timeline(transitions), histories_of_transitions(view.history)
        for offset in sorted(expected.keys() | found.keys()):
            assert found.get(offset) == expected.get(offset), f"offset {offset} of {view}"
        assert transitions[-1]["start_offset"] == view.start_offset
        assert not [row for row in transitions if row["cause"] == "unseen"]


def test_an_expired_lock_is_inferred_from_a_later_delivery(tmp_path: Path) -> None:
    path = tmp_path / "share.pcapng"
    properties = {"group.share.record.lock.duration.ms": 1_000, "group.share.min.record.lock.duration.ms": 1_000}
    cluster = Cluster(topics={TOPIC: 1}, properties=properties, capture=path)
    with cluster, ShareWorkload(MockTarget(cluster), 0, partitions=1) as workload:
        produce(workload.admin.client, workload.topic_id, 0, 3)
        wait_until(
            lambda: workload.members[0].fetch() and workload.members[0].acquired
        )  # The first one loads the share partition.
        wait_until(lambda: _view(cluster, 0).state_of(0) is RecordState.AVAILABLE)
        wait_until(lambda: workload.members[1].fetch() and workload.members[1].acquired)
        workload.admin.fetch({}, topics=[])  # What was sent before this is in the file.
        messages = list(read_rows(path, "messages"))
        transitions = list(share_timeline(messages, read_rows(path, "flows")))

    # On a slow machine the second lock may have expired, too.
    first = [row["cause"] for row in transitions].index("acquire")
    acquired, lock_timeout, again = transitions[first : first + 3]
    assert [row["cause"] for row in (acquired, lock_timeout, again)] == ["acquire", "lock_timeout", "acquire"]
    assert lock_timeout["is_inferred"]
    assert as_int(lock_timeout["ts"]) - as_int(acquired["ts"]) <= 1_000_000_000
    # The lock starts between request and response of the fetch, on a clock of whole milliseconds.
    key = (acquired["conn_id"], acquired["correlation_id"])
    (requested,) = (row["req_ts"] for row in messages if (row["conn_id"], row["correlation_id"]) == key)
    assert as_int(again["ts"]) - as_int(requested) >= 1_000_000_000 - 2_000_000
    assert (again["member_id"], again["delivery_count"]) == (workload.members[1].member_id, 2)


def _view(cluster: Cluster, partition: int) -> SharePartitionView:
    view = cluster.share_partition(GROUP, TOPIC, partition)
    assert view is not None
    return view
