"""DescribeQuorum (55), AddRaftVoter (80) and RemoveRaftVoter (81): one controller, which votes alone and always leads.

It runs beside the first node, and does not end with it. Its log is not kept: an offset counts what has been changed.
"""

from __future__ import annotations

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kwire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from kwire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from mockbroker.context import Context
from mockbroker.handlers.metadata_offset import metadata_offset
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, must
from mockbroker.state.feature_levels import KRAFT_VERSION

_TOPIC = "__cluster_metadata"
_LEADER_EPOCH = 1
_NODES_SINCE = 2


def describe_quorum(request: DescribeQuorumRequest, ctx: Context) -> Outcome:
    """Tell who votes and who follows. Pinned by the conversation other-describe-quorum."""
    must(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, ctx, message="DESCRIBE is not allowed.")
    asked = [(topic.topic_name, [row.partition_index for row in topic.partitions]) for topic in request.topics]
    if asked != [(_TOPIC, [0])]:
        return Reply(DescribeQuorumResponse(topics=[_unknown(name, indexes) for name, indexes in asked]))
    voter = voter_id(ctx)
    partition = DescribeQuorumResponsePartitionData(
        leader_id=voter,
        leader_epoch=_LEADER_EPOCH,
        high_watermark=metadata_offset(ctx) + 1,
        current_voters=[_replica(voter, ctx)],
        observers=[_replica(node_id, ctx) for node_id in ctx.cluster.calls.nodes if node_id != voter],
    )
    nodes = [Node(voter, _listeners(ctx))] if ctx.api_version >= _NODES_SINCE else []
    return Reply(DescribeQuorumResponse(topics=[DescribeQuorumResponseTopicData(_TOPIC, [partition])], nodes=nodes))


def refuse_describe_quorum(request: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    """A response that carries an error, without rows."""
    return DescribeQuorumResponse(error_code=error.code, error_message=error.message)


def add_raft_voter(request: AddRaftVoterRequest, ctx: Context) -> Outcome:
    """Refuse another voter: static voters take none, and one of others would have to answer first, which none does.

    Pinned by the conversations other-raft-voters and other-update-features-kraft.
    """
    _must_be_meant(request.cluster_id, request.voter_id, request.voter_directory_id, ctx)
    names = ctx.cluster.config.names("controller.listener.names")
    if not any(listener.name == names[0] for listener in request.listeners):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the voter has no listener {names[0]}")
    _must_be_dynamic(ctx)
    if request.voter_id == voter_id(ctx):
        raise KafkaError(ErrorCode.DUPLICATE_VOTER, f"{request.voter_id} is a voter already")
    # Kafka asks the new one for its versions; where nobody listens it does not wait for the time to run out.
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{request.voter_id} did not tell its versions")


def refuse_add_raft_voter(request: AddRaftVoterRequest, error: KafkaError) -> AddRaftVoterResponse:
    """A response that carries an error."""
    return AddRaftVoterResponse(error_code=error.code, error_message=error.message)


def remove_raft_voter(request: RemoveRaftVoterRequest, ctx: Context) -> Outcome:
    """Refuse to let a voter go: there is one only, and it stays. Pinned as above."""
    _must_be_meant(request.cluster_id, request.voter_id, request.voter_directory_id, ctx)
    _must_be_dynamic(ctx)
    raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{request.voter_id} is no voter that could be removed")


def refuse_remove_raft_voter(request: RemoveRaftVoterRequest, error: KafkaError) -> RemoveRaftVoterResponse:
    """A response that carries an error."""
    return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)


def voter_id(ctx: Context) -> int:
    """The controller's node id: that of the first node."""
    return ctx.cluster.config.integer("node.id")


def _unknown(name: str, indexes: list[int]) -> DescribeQuorumResponseTopicData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rows = [
        DescribeQuorumResponsePartitionData(partition_index=index, error_code=code, error_message=code.name)
        for index in indexes
    ]
    return DescribeQuorumResponseTopicData(name, rows)


def _replica(node_id: int, ctx: Context) -> ReplicaState:
    """A replica that has everything. Voters have directories only where they can change (KIP-853)."""
    is_static = node_id == voter_id(ctx) and ctx.cluster.features.get(KRAFT_VERSION, 0) < 1
    return ReplicaState(
        replica_id=node_id,
        replica_directory_id=uuids.ZERO if is_static else ctx.cluster.kept.directory_id(node_id, ctx.rng.randbytes),
        log_end_offset=metadata_offset(ctx) + 1,
        last_fetch_timestamp=ctx.now_ms,
        last_caught_up_timestamp=ctx.now_ms,
    )


def _listeners(ctx: Context) -> list[Listener]:
    """Where the controller would be: it has no socket of its own, so the address is the first node's."""
    node = ctx.cluster.nodes.get(voter_id(ctx), ctx.node)
    return [Listener(name, node.host, node.port) for name in ctx.cluster.config.names("controller.listener.names")[:1]]


def _must_be_meant(cluster_id: str | None, voter: int, directory_id: bytes, ctx: Context) -> None:
    """Raises: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, INVALID_REQUEST."""
    must(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, ctx, message="ALTER is not allowed.")
    if cluster_id is not None and cluster_id != ctx.cluster.cluster_id:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {ctx.cluster.cluster_id}")
    if voter < 0 or directory_id == uuids.ZERO:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"voter {voter} with directory {uuids.to_text(directory_id)}")


def _must_be_dynamic(ctx: Context) -> None:
    if ctx.cluster.features.get(KRAFT_VERSION, 0) < 1:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Cluster doesn't support adding or removing voters")
