"""ElectLeaders (43): preferred leaders, and where nobody leads any replica that lives."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.error_codes import ErrorCode
from kwire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, must
from mockbroker.state import leadership
from mockbroker.state.leadership import Election

_KINDS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def elect_leaders(request: ElectLeadersRequest, ctx: Context) -> Outcome:
    """Have leaders elected; of all partitions, those are not told that need no election.

    Source: Kafka's ReplicationControlManager.electLeaders; pinned by the stories *_by_request of tests/nodes.
    """
    must(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
    kind = _KINDS.get(request.election_type)
    if kind is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    if request.topic_partitions is None:
        rows = [
            ReplicaElectionResult(topic.name, _results(topic.name, range(len(topic.partitions)), kind, ctx, all_=True))
            for topic in ctx.cluster.metadata.topics()
        ]
    else:
        rows = [
            ReplicaElectionResult(wanted.topic, _results(wanted.topic, wanted.partitions, kind, ctx))
            for wanted in request.topic_partitions
        ]
    assert ctx.cluster.controller is not None
    ctx.cluster.controller.settle(now_ms=ctx.now_ms)
    return Reply(ElectLeadersResponse(replica_election_results=rows))


def refuse_elect_leaders(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """A response that carries an error at the top and in every row."""
    rows = [
        ReplicaElectionResult(
            wanted.topic, [PartitionResult(index, error.code, error.message) for index in wanted.partitions]
        )
        for wanted in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=error.code, replica_election_results=rows)


def _results(
    topic: str, indexes: Iterable[int], kind: Election, ctx: Context, *, all_: bool = False
) -> list[PartitionResult]:
    assert ctx.cluster.controller is not None
    rows = []
    for index in indexes:
        row = PartitionResult(index, error_message=None)
        try:
            leadership.elect(ctx.cluster.metadata, topic, index, kind, ctx.cluster.controller.rules)
        except KafkaError as error:
            if all_ and error.code is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            row.error_code, row.error_message = error.code, error.message
        rows.append(row)
    return rows
