"""ElectLeaders (43): preferred leader elections, and unclean elections of partitions without a leader."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.error_codes import ErrorCode
from kwire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, authorize_cluster
from mockbroker.handlers.shared.controller_timeout import check_controller_timeout
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata import leadership
from mockbroker.state.metadata.leadership import ElectionType, PlannedChange
from mockbroker.state.metadata.record_limit import RECORDS_MAX, check_record_count

_ELECTION_TYPES = {0: ElectionType.PREFERRED, 1: ElectionType.UNCLEAN}
#: Before this version a response has errors in its rows only.
_TOP_LEVEL_ERROR_SINCE = 1


def elect_leaders(request: ElectLeadersRequest, ctx: Context) -> Outcome:
    """Run elections; before version 1, what is refused as a whole is refused in each row."""
    try:
        return Reply(_run_elections(request, ctx))
    except KafkaError as error:
        if ctx.api_version >= _TOP_LEVEL_ERROR_SINCE:
            raise
        return Reply(ElectLeadersResponse(replica_election_results=_refused_rows(request, error)))


def _run_elections(request: ElectLeadersRequest, ctx: Context) -> ElectLeadersResponse:
    """Run elections; for all partitions, those that need no election are omitted.

    All are planned before the first one is run: a partition that is named twice gets two leader epochs.
    Raises: POLICY_VIOLATION, and nothing is elected; UNKNOWN_SERVER_ERROR after so many elections that Kafka's
    QuorumController fills a batch of records, and then appends an empty one.
    Source: Kafka's ReplicationControlManager.electLeaders; pinned by the scenarios *_by_request of tests/nodes.
    """
    authorize_cluster(AclOperation.ALTER, ctx)
    if request.topic_partitions is not None and not request.topic_partitions:
        return ElectLeadersResponse()
    check_controller_timeout(request.timeout_ms)
    kind = _ELECTION_TYPES.get(request.election_type)
    if kind is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    planned: list[PlannedChange] = []
    if request.topic_partitions is None:
        rows = [
            ReplicaElectionResult(
                topic.name, _plan_elections(topic.name, range(len(topic.partitions)), kind, ctx, planned, all_=True)
            )
            for topic in ctx.cluster.metadata.topics()
        ]
    else:
        rows = [
            ReplicaElectionResult(row.topic, _plan_elections(row.topic, row.partitions, kind, ctx, planned))
            for row in request.topic_partitions
        ]
    check_record_count(len(planned))
    assert ctx.cluster.controller is not None
    ctx.cluster.controller.apply_changes(planned, now_ms=ctx.now_ms)
    if len(planned) == RECORDS_MAX:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return ElectLeadersResponse(replica_election_results=rows)


def refuse_elect_leaders(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """A response with the error at the top level and in every row."""
    return ElectLeadersResponse(error_code=error.code, replica_election_results=_refused_rows(request, error))


def _refused_rows(request: ElectLeadersRequest, error: KafkaError) -> list[ReplicaElectionResult]:
    return [
        ReplicaElectionResult(
            row.topic, [PartitionResult(index, error.code, error.message) for index in row.partitions]
        )
        for row in request.topic_partitions or ()
    ]


def _plan_elections(
    topic: str,
    indexes: Iterable[int],
    kind: ElectionType,
    ctx: Context,
    planned: list[PlannedChange],
    *,
    all_: bool = False,
) -> list[PartitionResult]:
    """The rows of a topic; its elections are added to the planned ones."""
    assert ctx.cluster.controller is not None
    rows = []
    for index in indexes:
        row = PartitionResult(index, error_message=None)
        try:
            rules = ctx.cluster.controller.rules
            planned.append(leadership.plan_election(ctx.cluster.metadata, topic, index, kind, rules))
        except KafkaError as error:
            if all_ and error.code is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            row.error_code, row.error_message = error.code, error.message
        rows.append(row)
    return rows
