"""Share groups whose state is on several nodes."""

from __future__ import annotations

from typing import Any

from kwire.error_codes import ErrorCode
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from mockbroker.state.metadata.topics import CoordinatorKind
from mockbroker.state.share_coordinator.share_coordinator import ShareKey
from tests.support.brokers.broker import Broker
from tests.support.brokers.group_requests import share


def test_a_share_group_gets_its_partitions_with_state_on_other_nodes() -> None:
    broker = Broker(nodes=3, topics={"T": 6})
    node = broker.metadata.coordinator_id(CoordinatorKind.GROUP, "g")

    def beat(epoch: int, *topics: str) -> Any:
        return broker.call(share(epoch, *topics), 1, connection="c", node=node)

    def stored(index: int) -> object:
        key = ShareKey("g", broker.topic("T").topic_id, index)
        return next((one for one in broker.core.state.nodes.values() if one.share_coordinator.find_state(key)), None)

    first = beat(0, "T")
    assert (first.member_epoch, first.assignment.topic_partitions) == (2, [])
    broker.advance(5_000)
    second = beat(2)
    assert second.assignment.topic_partitions[0].partitions == (0, 1, 2, 3, 4, 5)

    assert len({stored(index) for index in range(6)} - {None}) > 1

    beat(-1)
    deleted = broker.call(DeleteGroupsRequest(("g",)), 2, connection="c", node=node)
    assert deleted.results[0].error_code == ErrorCode.NONE
    row = broker.call(ShareGroupDescribeRequest(("g",)), 1, connection="c", node=node).groups[0]
    assert row.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    for index in range(6):
        assert stored(index) is None
