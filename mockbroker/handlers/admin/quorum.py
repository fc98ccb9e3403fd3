"""DescribeQuorum (55), AddRaftVoter (80) and RemoveRaftVoter (81): the quorum has one controller, which is its leader.

The controller runs with the first node, and survives it. An offset is the number of changes, stored or not.
"""

from __future__ import annotations

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.add_raft_voter import AddRaftVoterRequest
from kwire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse, Listener, Node, ReplicaState
from kwire.messages.describe_quorum import DescribeQuorumResponsePartitionData as PartitionRow
from kwire.messages.describe_quorum import DescribeQuorumResponseTopicData as TopicRow
from kwire.messages.remove_raft_voter import RemoveRaftVoterRequest
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, authorize_cluster
from mockbroker.handlers.topics.metadata_offset import metadata_offset
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.feature_levels import KRAFT_VERSION

_METADATA_TOPIC = "__cluster_metadata"
_LEADER_EPOCH = 1
_NODES_SINCE = 2


def describe_quorum(request: DescribeQuorumRequest, ctx: Context) -> Outcome:
    """Return voters and observers. Pinned by the conversation other-describe-quorum."""
    authorize_cluster(AclOperation.DESCRIBE, ctx, message="DESCRIBE is not allowed.")
    requested = [(topic.topic_name, [row.partition_index for row in topic.partitions]) for topic in request.topics]
    if requested != [(_METADATA_TOPIC, [0])]:
        return Reply(DescribeQuorumResponse(topics=[_unknown_topic_row(name, indexes) for name, indexes in requested]))
    voter = voter_id(ctx)
    partition = PartitionRow(
        leader_id=voter,
        leader_epoch=_LEADER_EPOCH,
        high_watermark=metadata_offset(ctx) + 1,
        current_voters=[_replica_state(voter, ctx)],
        observers=[_replica_state(node_id, ctx) for node_id in ctx.cluster.inter_broker.nodes if node_id != voter],
    )
    nodes = [Node(voter, _controller_listeners(ctx))] if ctx.api_version >= _NODES_SINCE else []
    return Reply(DescribeQuorumResponse(topics=[TopicRow(_METADATA_TOPIC, [partition])], nodes=nodes))


def add_raft_voter(request: AddRaftVoterRequest, ctx: Context) -> Outcome:
    """Reject another voter: static voters cannot change, and a new dynamic voter would have to respond first.

    Pinned by the conversations other-raft-voters and other-update-features-kraft.
    """
    _check_voter_request(request.cluster_id, request.voter_id, request.voter_directory_id, ctx)
    names = ctx.cluster.config.strings("controller.listener.names")
    if not any(listener.name == names[0] for listener in request.listeners):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the voter has no listener {names[0]}")
    _require_dynamic_quorum(ctx)
    if request.voter_id == voter_id(ctx):
        raise KafkaError(ErrorCode.DUPLICATE_VOTER, f"{request.voter_id} is already a voter")
    # Kafka requests the versions of the new voter; without a listener there it fails before the timeout.
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{request.voter_id} did not send its supported versions")


def remove_raft_voter(request: RemoveRaftVoterRequest, ctx: Context) -> Outcome:
    """Reject the removal of a voter: there is only one. Pinned as above."""
    _check_voter_request(request.cluster_id, request.voter_id, request.voter_directory_id, ctx)
    _require_dynamic_quorum(ctx)
    raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{request.voter_id} is not a voter that can be removed")


def voter_id(ctx: Context) -> int:
    """The controller's node id: that of the first node."""
    return ctx.cluster.config.integer("node.id")


def _unknown_topic_row(name: str, indexes: list[int]) -> TopicRow:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TopicRow(name, [PartitionRow(index, error_code=code, error_message=code.name) for index in indexes])


def _replica_state(node_id: int, ctx: Context) -> ReplicaState:
    """A replica that is up to date. Voters have directories only where they can change (KIP-853)."""
    directory_id = uuids.ZERO
    if node_id != voter_id(ctx) or ctx.cluster.features.get(KRAFT_VERSION, 0) >= 1:
        directory_id = ctx.cluster.broker_storage.directory_id(node_id, ctx.rng.randbytes)
    return ReplicaState(
        replica_id=node_id,
        replica_directory_id=directory_id,
        log_end_offset=metadata_offset(ctx) + 1,
        last_fetch_timestamp=ctx.now_ms,
        last_caught_up_timestamp=ctx.now_ms,
    )


def _controller_listeners(ctx: Context) -> list[Listener]:
    """The controller's endpoint; without a socket of its own, the address is the first node's."""
    endpoint = ctx.cluster.controller_endpoint
    if endpoint is not None:
        return [Listener(endpoint.listener, endpoint.host, endpoint.port)]
    node = ctx.cluster.nodes.get(voter_id(ctx), ctx.node)
    names = ctx.cluster.config.strings("controller.listener.names")
    return [Listener(name, node.host, node.port) for name in names[:1]]


def _check_voter_request(cluster_id: str | None, voter: int, directory_id: bytes, ctx: Context) -> None:
    """Raises: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, INVALID_REQUEST."""
    authorize_cluster(AclOperation.ALTER, ctx, message="ALTER is not allowed.")
    if cluster_id is not None and cluster_id != ctx.cluster.cluster_id:
        why = f"the id {cluster_id!r} is not that of this cluster, {ctx.cluster.cluster_id}"
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, why)
    if voter < 0 or directory_id == uuids.ZERO:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"voter {voter} with directory {uuids.to_text(directory_id)}")


def _require_dynamic_quorum(ctx: Context) -> None:
    if ctx.cluster.features.get(KRAFT_VERSION, 0) < 1:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Cluster doesn't support adding or removing voters")
