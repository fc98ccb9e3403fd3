"""DescribeGroups of groups with several coordinators."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.describe_groups import DescribeGroupsRequest
from mockbroker.state.metadata.topics import CoordinatorKind
from tests.support.brokers.broker import Broker


def test_describe_rows_have_an_error_for_groups_with_another_coordinator() -> None:
    broker = Broker(nodes=3)
    coordinators = {name: broker.metadata.coordinator_id(CoordinatorKind.GROUP, name) for name in ("g", *"abcdefghij")}
    node = coordinators["g"]
    other = next(name for name, other_node in coordinators.items() if other_node != node)

    rows = broker.call(DescribeGroupsRequest(groups=("g", other)), 6, connection="c", node=node).groups

    assert [row.error_code for row in rows] == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NOT_COORDINATOR]
