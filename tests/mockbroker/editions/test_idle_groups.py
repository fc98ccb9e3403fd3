"""An idle group without new records writes nothing; only 4.3 has snapshots of cold states."""

from __future__ import annotations

import pytest

from mockbroker.server import Server
from mockbroker.state.share.share_rules import SHARE_EDITIONS
from tests.support.brokers.draft_members import running_member

POLLS, PAUSE_MS = 120, 5_000


def _log_ends(server: Server) -> dict[tuple[str, int], int]:
    store, topics = server.core.state.log_store, server.core.state.metadata.topics()
    assert store is not None
    places = [(topic, partition.index) for topic in topics for partition in topic.partitions]
    return {(topic.name, index): store.open_log(topic, index).end_offset for topic, index in places}


@pytest.mark.parametrize("edition", SHARE_EDITIONS)
def test_a_group_that_polls_for_ten_minutes_without_a_record_writes_nothing(edition: str) -> None:
    with running_member(edition) as member:
        cluster = member.cluster
        cluster.clock.freeze()
        epoch = 0
        for _ in range(3):
            epoch = member.join(epoch).member_epoch
            cluster.clock.advance(PAUSE_MS)
        for _ in range(2):
            assert member.fetch(wait_ms=0) == []
            cluster.clock.advance(PAUSE_MS)
        before = cluster.run(_log_ends)

        for _ in range(POLLS):
            assert member.join(epoch).member_epoch == epoch
            assert member.fetch(wait_ms=0) == []
            cluster.clock.advance(PAUSE_MS)
        assert cluster.run(_log_ends) == before
