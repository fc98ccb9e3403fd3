"""Share-partition leader operations: load the state, send writes, release sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.config.keys import parse_duration_ms
from mockbroker.kafka_error import KafkaError
from mockbroker.persisters.default import leader_error
from mockbroker.state.share.pending_write import PendingWrite
from mockbroker.state.share.share_partition import PartitionStatus, SharePartition
from mockbroker.state.share.share_partitions import wake_key
from mockbroker.state.share.share_session import ShareSession
from mockbroker.state.share.state_batches import combine_batches
from mockbroker.state.share_coordinator.share_coordinator import UNINITIALIZED_START, ShareKey, StoredState
from mockbroker.state.storage.partition_log import PartitionLog

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.broker.node import Node
    from mockbroker.engine.context import Context

#: Errors of writes after another leader was elected or the state was deleted (share-semantics 2.11).
_FENCING_ERRORS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


def get_partition(ctx: Context, group_id: str, topic_id: bytes, partition_index: int) -> SharePartition:
    """The share partition; on first use it is created and its state is loaded.

    Raises: NOT_LEADER_OR_FOLLOWER when this node does not lead the partition.
    """
    return get_partition_of_node(
        ctx.node, ctx.cluster, ShareKey(group_id, topic_id, partition_index), now_ms=ctx.now_ms
    )


def get_partition_of_node(node: Node, cluster: ClusterState, key: ShareKey, *, now_ms: int) -> SharePartition:
    """As `get_partition`, for callers outside a request."""
    metadata_partition = cluster.metadata.find_partition(key.topic_id, key.partition)
    if metadata_partition is None or metadata_partition.leader != node.node_id:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    partition = node.share_partitions.get(*key)
    if partition is None:
        partition = node.share_partitions.get_or_create(
            *key, leader_epoch=metadata_partition.leader_epoch, settings=node.group_config(key.group_id)
        )
    if partition.status is PartitionStatus.EMPTY:
        partition.status = PartitionStatus.INITIALIZING
        _load_state(partition, node, cluster, now_ms)
    return partition


def _load_state(partition: SharePartition, node: Node, cluster: ClusterState, since_ms: int) -> None:
    """Read the state from the share coordinator; waiting requests are woken when it is loaded or has failed."""
    key = ShareKey(partition.group_id, partition.topic_id, partition.partition_index)
    settings = node.group_config(partition.group_id)

    def loaded(answer: StoredState | KafkaError, now_ms: int) -> None:
        if partition.status is not PartitionStatus.INITIALIZING:
            return  # Dropped meanwhile; the next request creates a new one.
        error: ErrorCode | None
        try:
            if isinstance(answer, KafkaError):
                error = partition.set_load_error(leader_error(answer))
            else:
                start, batches = _choose_start_offset(answer, node, key, settings, now_ms), answer.batches
                partition.window.hidden = node.persister.hidden_batches(key)
                if answer.start_offset == UNINITIALIZED_START:
                    epochs = {"state_epoch": answer.state_epoch, "leader_epoch": partition.leader_epoch}
                    node.persister.record_initial_start(key, start, **epochs, now_ms=now_ms)
                    if cluster.rules.state.delta_writer is not None:
                        # A leader that has missed the initialization writes states without a start.
                        batches = tuple(combine_batches((), batches, start))
                error = partition.load_state(start, answer.state_epoch, batches, now_ms=now_ms)
                if (
                    error is None
                    and answer.start_offset == UNINITIALIZED_START
                    and cluster.rules.state.writes_initial_start
                ):
                    send_write(node, partition, partition.prepare_start_write(), now_ms)
                if error is None:
                    partition.resume_dead_letters(now_ms=now_ms)
        except KafkaError as load_error:
            error = partition.set_load_error(load_error.code)
        if error is not None:
            node.share_partitions.remove_failed(partition)
        cluster.wake(wake_key(*key))

    node.persister.read_states(key, leader_epoch=partition.leader_epoch, done=loaded, now_ms=since_ms)


def _choose_start_offset(
    stored: StoredState, node: Node, key: ShareKey, settings: Mapping[str, object], now_ms: int
) -> int:
    """The stored start, or the one of the group's reset strategy (share-semantics 2.1)."""
    if stored.start_offset != UNINITIALIZED_START:
        return stored.start_offset
    log: PartitionLog = node.logs.find_log(key.topic_id, key.partition)
    strategy = str(settings["share.auto.offset.reset"])
    kind, _, duration = strategy.partition(":")
    if kind.lower() == "latest":
        return log.high_watermark
    if kind.lower() == "earliest":
        return log.start_offset
    result = log.offset_for_timestamp(now_ms - (parse_duration_ms(duration) or 0))
    if result is None:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"no record is as recent as {strategy} requires")
    return result.offset


def drop_if_fenced(node: Node, partition: SharePartition, error: ErrorCode | None) -> None:
    """Drop a partition after an error that shows that another leader has taken over."""
    if error in _FENCING_ERRORS:
        node.share_partitions.drop_partition(partition)


def send_write(
    node: Node,
    partition: SharePartition,
    write: PendingWrite,
    now_ms: int,
    done: Callable[[ErrorCode | None], None] | None = None,
) -> None:
    """Send a write to the persister; `done` gets None, or the code for the client."""

    def written(error: ErrorCode | None, at_ms: int) -> None:
        drop_if_fenced(node, partition, error)
        if done is not None:
            done(error)

    node.persister.send_write(partition, write, now_ms, written)


def release_session(session: ShareSession, ctx: Context) -> None:
    """Release the records of a closed session's member, without waiting for the writes (share-semantics 4.6).

    Waiting fetches retry at once, and find the records in transition.
    """
    for key in session.partitions:
        partition = ctx.node.share_partitions.get(session.group_id, *key)
        if partition is None:
            continue
        write = partition.release_member(session.member_id, now_ms=ctx.now_ms)
        if write is not None:
            send_write(ctx.node, partition, write, ctx.now_ms)
        ctx.wake(wake_key(session.group_id, *key))


def end_session(group_id: str, member_id: str, ctx: Context) -> None:
    """Close a session after its last response, and release the member's records."""
    session = ctx.node.share_sessions.remove_session(group_id, member_id)
    if session is not None:
        release_session(session, ctx)


def close_session_of_connection(connection_id: int, ctx: Context) -> None:
    """Close the session that a connection created last, after the connection ended (share-semantics 4.6)."""
    node = ctx.node
    closed = (
        node.share_sessions.close_connection(connection_id) if ctx.cluster.rules.sessions.close_on_disconnect else None
    )
    if closed is None:
        return
    group_id, session = closed
    if session is not None:
        release_session(session, ctx)
    if not node.share_sessions.has_group(group_id):
        node.share_partitions.drop_group(group_id)
