"""What a share-partition leader does with other rooms: loads its state, sends its writes, ends sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.config_keys import duration_ms
from mockbroker.kafka_error import KafkaError
from mockbroker.persisters.default import leader_error
from mockbroker.state.log import PartitionLog
from mockbroker.state.share_coordinator import UNINITIALIZED_START, ShareKey, Stored
from mockbroker.state.share_partition import PendingWrite, SharePartition, Status
from mockbroker.state.share_partitions import wake_key
from mockbroker.state.share_session import ShareSession
from mockbroker.state.state_batches import combine

if TYPE_CHECKING:
    from mockbroker.context import ClusterState, Context
    from mockbroker.node import Node

#: An acknowledgement or a release that fails so has met another leader, or a state that is gone (share-semantics 2.11).
_FENCING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


def find_partition(ctx: Context, group_id: str, topic_id: bytes, partition_index: int) -> SharePartition:
    """The share partition, made and set to loading when it is first asked for.

    Raises: NOT_LEADER_OR_FOLLOWER when this node does not lead the partition.
    """
    return partition_of(ctx.node, ctx.cluster, ShareKey(group_id, topic_id, partition_index), now_ms=ctx.now_ms)


def partition_of(node: Node, cluster: ClusterState, key: ShareKey, *, now_ms: int) -> SharePartition:
    """As `find_partition`, for whoever is no request."""
    place = cluster.metadata.leader(key.topic_id, key.partition)
    if place is None or place.leader != node.node_id:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    partition = node.share_partitions.get_or_create(
        *key, leader_epoch=place.leader_epoch, settings=cluster.configs.group(key.group_id)
    )
    if partition.status is Status.EMPTY:
        partition.status = Status.INITIALIZING
        _load(partition, node, cluster, now_ms)
    return partition


def _load(partition: SharePartition, node: Node, cluster: ClusterState, since_ms: int) -> None:
    """Ask the share coordinator for the state; who waits for the partition is woken when it is there, or refused."""
    key = ShareKey(partition.group_id, partition.topic_id, partition.partition_index)
    settings = cluster.configs.group(partition.group_id)

    def loaded(answer: Stored | KafkaError, now_ms: int) -> None:
        if partition.status is not Status.INITIALIZING:
            return  # Dropped meanwhile; whoever asks again gets a fresh one.
        error: ErrorCode | None
        try:
            if isinstance(answer, KafkaError):
                error = partition.fail(leader_error(answer))
            else:
                start, batches = _start_offset(answer, node, key, settings, now_ms), answer.batches
                partition.window.hidden = node.persister.hidden(key, node)
                if answer.start_offset == UNINITIALIZED_START:
                    epochs = {"state_epoch": answer.state_epoch, "leader_epoch": partition.leader_epoch}
                    node.persister.decided(key, start, **epochs, now_ms=now_ms)
                    if cluster.rules.writes_what_moves:
                        # A leader that has not heard of a new beginning writes states without a start.
                        batches = tuple(combine((), batches, start))
                error = partition.load(start, answer.state_epoch, batches, now_ms=now_ms)
                if error is None and answer.start_offset == UNINITIALIZED_START and cluster.rules.writes_chosen_start:
                    send_write(node, partition.prepare_start(), now_ms)
        except KafkaError as refusal:
            error = partition.fail(refusal.code)
        if error is not None:
            node.share_partitions.forget_failed(partition)
        cluster.wake(wake_key(*key))

    node.persister.read(key, leader_epoch=partition.leader_epoch, done=loaded, now_ms=since_ms)


def _start_offset(stored: Stored, node: Node, key: ShareKey, settings: Mapping[str, object], now_ms: int) -> int:
    """The stored start, or what the group's reset strategy makes of the log now (share-semantics 2.1)."""
    if stored.start_offset != UNINITIALIZED_START:
        return stored.start_offset
    log: PartitionLog = node.logs.get(key.topic_id, key.partition)
    strategy = str(settings["share.auto.offset.reset"])
    kind, _, duration = strategy.partition(":")
    if kind.lower() == "latest":
        return log.high_watermark
    if kind.lower() == "earliest":
        return log.start_offset
    found = log.offset_for_timestamp(now_ms - (duration_ms(duration) or 0))
    if found is None:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"no record is as young as {strategy} asks")
    return found.offset


def drop_if_fenced(node: Node, partition: SharePartition, error: ErrorCode | None) -> None:
    """Forget a partition after an error that says that another one has taken over."""
    if error in _FENCING:
        node.share_partitions.drop(partition)


def send_write(
    node: Node, write: PendingWrite, now_ms: int, done: Callable[[ErrorCode | None], None] | None = None
) -> None:
    """Have a write stored; `done` gets None, or the code for the client."""

    def written(error: ErrorCode | None, at_ms: int) -> None:
        drop_if_fenced(node, write.partition, error)
        if done is not None:
            done(error)

    node.persister.send(write, now_ms, written)


def release_session(session: ShareSession, ctx: Context) -> None:
    """Give back what the member of a session that ended still holds; nobody waits for the writes (4.6).

    Parked fetches look again right now, and find the records in transition (correction 1).
    """
    for key in session.partitions:
        partition = ctx.node.share_partitions.get(session.group_id, *key)
        if partition is None:
            continue
        write = partition.release_member(session.member_id, now_ms=ctx.now_ms)
        if write is not None:
            send_write(ctx.node, write, ctx.now_ms)
        ctx.wake(wake_key(session.group_id, *key))


def end_session(group_id: str, member_id: str, ctx: Context) -> None:
    """The last request of a session has been answered for: forget it, and release what the member holds."""
    session = ctx.node.share_sessions.remove(group_id, member_id)
    if session is not None:
        release_session(session, ctx)


def on_disconnect(node: Node, connection_id: int, ctx: Context) -> None:
    """A connection has ended, and with it the session that it made last (share-semantics 4.6)."""
    made = node.share_sessions.disconnected(connection_id) if ctx.cluster.rules.sessions_end_with_connections else None
    if made is None:
        return
    group_id, session = made
    if session is not None:
        release_session(session, ctx)
    if not node.share_sessions.has_group(group_id):
        node.share_partitions.drop_group(group_id)
