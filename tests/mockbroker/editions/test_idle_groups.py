"""What a group writes that is left alone with nothing to read: nothing, until 4.3 came with snapshots of the cold."""

from __future__ import annotations

import pytest

from mockbroker import Cluster
from tests.mockbroker.editions.draft_kit import TOPIC, Member

POLLS, PAUSE_MS = 120, 5_000


def _written(cluster: Cluster) -> dict[tuple[str, int], int]:
    def look(server: object) -> dict[tuple[str, int], int]:
        state = server.core.state  # type: ignore[attr-defined]
        places = [(topic, partition.index) for topic in state.metadata.topics() for partition in topic.partitions]
        return {(topic.name, index): state.store.log(topic, index).end_offset for topic, index in places}

    return cluster.run(look)


@pytest.mark.parametrize(
    "edition", ["4.0-early-access", "kip932-r1", "kip932-r2", "kip932-r3", "kip932-r4", "kip932-r5"]
)
def test_a_group_that_polls_for_ten_minutes_without_a_record_writes_nothing(edition: str) -> None:
    with Cluster(share_edition=edition, topics={TOPIC: 1}) as cluster, Member(cluster, edition) as member:
        cluster.clock.freeze()
        epoch = 0
        for _ in range(3):
            epoch = member.join(epoch).member_epoch
            cluster.clock.advance(PAUSE_MS)
        for _ in range(2):
            assert member.fetch(wait_ms=0) == []
            cluster.clock.advance(PAUSE_MS)
        before = _written(cluster)

        for _ in range(POLLS):
            assert member.join(epoch).member_epoch == epoch
            assert member.fetch(wait_ms=0) == []
            cluster.clock.advance(PAUSE_MS)
        assert _written(cluster) == before
