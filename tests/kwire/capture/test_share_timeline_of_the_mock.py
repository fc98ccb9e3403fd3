"""`share_timeline` from a capture of the mock is the mock's own history, record by record, whatever its clients did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from kwire.capture.pipeline import rows
from kwire.capture.rows import Row
from kwire.capture.share_timeline import share_timeline
from mockbroker import Cluster
from mockbroker.inside import SharePartitionView, State
from tests.kwire.capture.share_kit import produce
from tests.kwire.capture.share_lives import lives_of_history, lives_of_timeline, whole_number
from tests.kwire.capture.share_play import GROUP, LOCK_MS, PARTITIONS, TOPIC, MockStage, Play, until

STEPS = 120
SEEDS = 12


def captured(path: Path, stage: MockStage) -> Mapping[int, list[Row]]:
    """The timeline of each partition of the group."""
    messages = [stage.told(row) for row in rows(path, "messages")]
    flows = [stage.told(row) for row in rows(path, "flows")]
    by_partition: dict[int, list[Row]] = defaultdict(list)
    for row in share_timeline(messages, flows):
        by_partition[whole_number(row["partition"])].append(row)
    return by_partition


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_timeline_is_the_history_of_the_mock_record_by_record(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "share.pcapng"
    properties = {"group.share.record.lock.duration.ms": LOCK_MS}
    cluster = Cluster(topics={TOPIC: PARTITIONS}, properties=properties, seed=seed, capture=path)
    with cluster, Play(stage := MockStage(cluster), seed) as play:
        play.go(STEPS)
        views = [_view(cluster, partition) for partition in range(PARTITIONS)]
        timeline = captured(path, stage)

    for view in views:
        told = timeline[view.partition]
        found, expected = lives_of_timeline(told), lives_of_history(view.history)
        for offset in sorted(expected.keys() | found.keys()):
            assert found.get(offset) == expected.get(offset), f"offset {offset} of {view}"
        assert told[-1]["start_offset"] == view.start_offset
        assert not [row for row in told if row["cause"] == "unseen"]


def test_a_lock_that_runs_out_by_itself_is_told_where_a_later_delivery_shows_it(tmp_path: Path) -> None:
    path = tmp_path / "share.pcapng"
    properties = {"group.share.record.lock.duration.ms": 1_000, "group.share.min.record.lock.duration.ms": 1_000}
    cluster = Cluster(topics={TOPIC: 1}, properties=properties, capture=path)
    with cluster, Play(MockStage(cluster), 0, partitions=1) as play:
        produce(play.admin.client, play.topic_id, 0, 3)
        until(lambda: play.members[0].fetch() and play.members[0].held)  # The first one loads the share partition.
        until(lambda: _view(cluster, 0).state_of(0) is State.AVAILABLE)
        until(lambda: play.members[1].fetch() and play.members[1].held)
        play.admin.fetch({}, topics=[])  # What was sent before this is in the file.
        told = list(share_timeline(rows(path, "messages"), rows(path, "flows")))

    # On a slow machine the second lock may have run out as well.
    first = [row["cause"] for row in told].index("acquire")
    acquired, lock_timeout, again = told[first : first + 3]
    assert [row["cause"] for row in (acquired, lock_timeout, again)] == ["acquire", "lock_timeout", "acquire"]
    assert lock_timeout["is_inferred"]
    assert (
        whole_number(lock_timeout["ts"]) - whole_number(acquired["ts"])
        <= 1_000_000_000
        <= whole_number(again["ts"]) - whole_number(acquired["ts"])
    )
    assert (again["member_id"], again["delivery_count"]) == (play.members[1].member_id, 2)


def _view(cluster: Cluster, partition: int) -> SharePartitionView:
    view = cluster.share_partition(GROUP, TOPIC, partition)
    assert view is not None
    return view
