"""AlterPartitionReassignments (45) and ListPartitionReassignments (46): replicas that come and go."""

from __future__ import annotations

from kwire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kwire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, must
from mockbroker.state.reassignment import cancel, reassign
from mockbroker.state.topics import Topic


def alter_partition_reassignments(request: AlterPartitionReassignmentsRequest, ctx: Context) -> Outcome:
    """Begin reassignments, or take them back; rows fail one by one.

    Pinned by the story replicas_are_reassigned of tests/nodes.
    """
    must(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
    allow = request.allow_replication_factor_change
    rows = [
        ReassignableTopicResponse(topic.name, [_row(topic.name, row, ctx, allow=allow) for row in topic.partitions])
        for topic in request.topics
    ]
    assert ctx.cluster.controller is not None
    ctx.cluster.controller.settle(now_ms=ctx.now_ms)
    return Reply(
        AlterPartitionReassignmentsResponse(allow_replication_factor_change=allow, error_message=None, responses=rows)
    )


def _row(name: str, wanted: ReassignablePartition, ctx: Context, *, allow: bool) -> ReassignablePartitionResponse:
    assert ctx.cluster.controller is not None
    metadata, rules, index = ctx.cluster.metadata, ctx.cluster.controller.rules, wanted.partition_index
    try:
        if wanted.replicas is None:
            cancel(metadata, name, index, rules)
        else:
            reassign(metadata, name, index, wanted.replicas, rules, may_change_factor=allow)
    except KafkaError as error:
        return ReassignablePartitionResponse(index, error.code, error.message)
    return ReassignablePartitionResponse(index, error_message=None)


def list_partition_reassignments(request: ListPartitionReassignmentsRequest, ctx: Context) -> Outcome:
    """Tell the reassignments under way, all of them or those of some partitions."""
    must(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
    metadata = ctx.cluster.metadata
    if request.topics is None:
        found = [(topic, tuple(range(len(topic.partitions)))) for topic in metadata.topics()]
    else:
        asked = [(metadata.topic(row.name), row.partition_indexes) for row in request.topics]
        found = [(topic, indexes) for topic, indexes in asked if topic is not None]
    rows = [OngoingTopicReassignment(topic.name, _ongoing(topic, indexes)) for topic, indexes in found]
    return Reply(ListPartitionReassignmentsResponse(error_message=None, topics=[row for row in rows if row.partitions]))


def _ongoing(topic: Topic, indexes: tuple[int, ...]) -> list[OngoingPartitionReassignment]:
    partitions = [topic.partition(index) for index in indexes]
    return [
        OngoingPartitionReassignment(one.index, one.replicas, one.adding, one.removing)
        for one in partitions
        if one is not None and one.is_reassigned
    ]
