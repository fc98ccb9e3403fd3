"""AlterPartitionReassignments (45) and ListPartitionReassignments (46)."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
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
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, authorize_cluster
from mockbroker.handlers.shared.controller_timeout import check_controller_timeout
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.leadership import PlannedChange
from mockbroker.state.metadata.reassignment import plan_cancellation, plan_reassignment
from mockbroker.state.metadata.record_limit import RECORDS_MAX
from mockbroker.state.metadata.topics import Topic


def alter_partition_reassignments(request: AlterPartitionReassignmentsRequest, ctx: Context) -> Outcome:
    """Start or cancel reassignments; rows fail one by one, those beyond the limit of records too.

    All are planned before the first one starts. Pinned by the story replicas_are_reassigned of tests/nodes.
    """
    authorize_cluster(AclOperation.ALTER, ctx)
    if not request.topics:
        return Reply(AlterPartitionReassignmentsResponse())
    check_controller_timeout(request.timeout_ms)
    allow = request.allow_replication_factor_change
    planned: list[PlannedChange] = []
    rows = [
        ReassignableTopicResponse(
            topic.name, [_plan_row(topic.name, row, ctx, planned, allow=allow) for row in topic.partitions]
        )
        for topic in request.topics
    ]
    assert ctx.cluster.controller is not None
    ctx.cluster.controller.apply_changes(planned, now_ms=ctx.now_ms)
    return Reply(
        AlterPartitionReassignmentsResponse(allow_replication_factor_change=allow, error_message=None, responses=rows)
    )


def refuse_alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    """A response with the error at the top level and in every row."""
    rows = [
        ReassignableTopicResponse(
            topic.name,
            [ReassignablePartitionResponse(row.partition_index, error.code, error.message) for row in topic.partitions],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message, responses=rows)


def _plan_row(
    name: str, row: ReassignablePartition, ctx: Context, planned: list[PlannedChange], *, allow: bool
) -> ReassignablePartitionResponse:
    """The response to a row; its change is added to the planned ones."""
    assert ctx.cluster.controller is not None
    metadata, rules, index = ctx.cluster.metadata, ctx.cluster.controller.rules, row.partition_index
    try:
        if row.replicas is None:
            change = plan_cancellation(metadata, name, index, rules)
        else:
            change = plan_reassignment(metadata, name, index, row.replicas, rules, may_change_factor=allow)
        if not change.is_empty:
            if len(planned) == RECORDS_MAX:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            planned.append(change)
    except KafkaError as error:
        return ReassignablePartitionResponse(index, error.code, error.message)
    return ReassignablePartitionResponse(index, error_message=None)


def list_partition_reassignments(request: ListPartitionReassignmentsRequest, ctx: Context) -> Outcome:
    """Return the ongoing reassignments, all of them or those of some partitions."""
    authorize_cluster(AclOperation.DESCRIBE, ctx)
    metadata = ctx.cluster.metadata
    if request.topics is None:
        existing = [(topic, tuple(range(len(topic.partitions)))) for topic in metadata.topics()]
    else:
        requested = [(metadata.topic(row.name), row.partition_indexes) for row in request.topics]
        existing = [(topic, indexes) for topic, indexes in requested if topic is not None]
    rows = [OngoingTopicReassignment(topic.name, _ongoing_reassignments(topic, indexes)) for topic, indexes in existing]
    return Reply(ListPartitionReassignmentsResponse(error_message=None, topics=[row for row in rows if row.partitions]))


def _ongoing_reassignments(topic: Topic, indexes: tuple[int, ...]) -> list[OngoingPartitionReassignment]:
    partitions = [topic.partition(index) for index in indexes]
    return [
        OngoingPartitionReassignment(partition.index, partition.replicas, partition.adding, partition.removing)
        for partition in partitions
        if partition is not None and partition.is_being_reassigned
    ]
