"""ShareFetch (78) and ShareAcknowledge (79)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from kwire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kwire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from mockbroker.engine.outcome import Outcome, Park, Reply
from mockbroker.handlers.share import acknowledge_partitions
from mockbroker.handlers.share.acknowledge_partitions import PendingAcknowledgements
from mockbroker.handlers.share.delayed_share_fetch import DelayedShareFetch
from mockbroker.handlers.share.share_groups import require_share_groups
from mockbroker.handlers.share.share_leader import end_session
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize
from mockbroker.handlers.shared.leader_hints import LEADER_ERRORS, LeaderHints
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share.share_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    PartitionKey,
    RequestedPartition,
    ShareSession,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mockbroker.engine.context import Context

_MEMBER_ID_SIZE_MAX = 36
#: A configuration of earlier versions that 4.3.0 does not have.
_GROUPS_MAX, _GROUPS_MAX_DEFAULT = "group.share.max.groups", "10"
#: KIP-1222 added RENEW; a renewing fetch returns no records.
_RENEWAL_SINCE = 2
#: How long a response waits for writes before a repeated check: longer than the persister retries.
_WRITE_TIMEOUT_MS = 300_000


def share_fetch(request: ShareFetchRequest, ctx: Context) -> Outcome:
    """Deliver records to a member, and apply its acknowledgements.

    Raises: UNSUPPORTED_VERSION, INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
    Source: share-semantics 1.7, 3.4 and 4; Kafka checks in this order.
    """
    group_id, member_id = _check_group_and_member(request.group_id, request.member_id, ctx)
    renews = ctx.api_version >= _RENEWAL_SINCE and request.is_renew_ack
    if renews and (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    has_batches = any(partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions)
    session, rules = None, ctx.cluster.rules
    if (
        request.share_session_epoch == FINAL_EPOCH
        and rules.fetch.has_partition_max_bytes
        and _requested_partitions(request, ctx)
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.share_session_epoch == INITIAL_EPOCH:
        if has_batches:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        session = _open_session(request, group_id, member_id, ctx)
        if session is None and rules.sessions.limited_by_groups:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if session is None:
            return _reject_after_max_wait(ctx.now_ms + request.max_wait_ms, ctx)
    else:
        session = ctx.node.share_sessions.advance_epoch(
            group_id, member_id, request.share_session_epoch, now_ms=ctx.now_ms
        )
    if request.share_session_epoch > INITIAL_EPOCH and (request.topics or request.forgotten_topics_data):
        session.update_partitions(_requested_partitions(request, ctx), _forgotten_partitions(request))
    if ctx.cluster.authorizer is not None:
        names = [partition.topic_name for partition in _requested_partitions(request, ctx)]
        if request.share_session_epoch != FINAL_EPOCH:
            names += [partition.topic_name for partition in session.partitions.values()]
        _require_names(names)
    acknowledgements = PendingAcknowledgements(group_id, member_id)
    if has_batches:
        batches = acknowledge_partitions.read_acknowledgement_batches(request.topics)
        acknowledge_partitions.start_acknowledgements(ctx, acknowledgements, batches, is_renewal=request.is_renew_ack)
    wait = DelayedShareFetch(request, session, acknowledgements, ctx.now_ms + request.max_wait_ms)
    if request.share_session_epoch == FINAL_EPOCH or renews:
        wait.skip_fetch()
    else:
        wait.start(ctx)
    return wait.resume(ctx)


def share_acknowledge(request: ShareAcknowledgeRequest, ctx: Context) -> Outcome:
    """Apply acknowledgements of records that this member holds. Source: share-semantics 3 and 4.3.

    Raises: UNSUPPORTED_VERSION, INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
    """
    group_id, member_id = _check_group_and_member(request.group_id, request.member_id, ctx)
    if request.share_session_epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    ctx.node.share_sessions.advance_epoch(group_id, member_id, request.share_session_epoch, now_ms=ctx.now_ms)
    if ctx.cluster.authorizer is not None:
        topics = [ctx.cluster.metadata.topic_by_id(topic.topic_id) for topic in request.topics if topic.partitions]
        _require_names([None if topic is None else topic.name for topic in topics])
    work = PendingAcknowledgements(group_id, member_id)
    batches = acknowledge_partitions.read_acknowledgement_batches(request.topics)
    acknowledge_partitions.start_acknowledgements(ctx, work, batches, is_renewal=request.is_renew_ack)
    return _finish_acknowledge(work, ctx, is_final=request.share_session_epoch == FINAL_EPOCH)


def _finish_acknowledge(work: PendingAcknowledgements, ctx: Context, *, is_final: bool) -> Outcome:
    """Reply when the writes are done. is_final: the session ends with this request."""
    if work.pending:
        resume = partial(_finish_acknowledge, work, is_final=is_final)
        return Park(ctx.now_ms + _WRITE_TIMEOUT_MS, (work.key,), resume)
    if is_final:
        end_session(work.group_id, work.member_id, ctx)
    return Reply(_acknowledge_response(work, work.group_id, ctx))


def _check_group_and_member(group_id: str | None, member_id: str | None, ctx: Context) -> tuple[str, str]:
    """The group id and member id, after the checks that do not advance the session epoch (share-semantics 4.2)."""
    require_share_groups(ctx)
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    authorize(AclOperation.READ, ResourceType.GROUP, group_id, ctx)
    if not member_id or len(member_id.encode("utf-16-le")) // 2 > _MEMBER_ID_SIZE_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return group_id, member_id


def _require_names(names: Sequence[str | None]) -> None:
    """Fail for an unknown topic id, for a broker with an authorizer: Kafka has no resource without a name.

    Pinned by the conversation share-acl-unknown-topic-id. Raises: UNKNOWN_SERVER_ERROR.
    """
    if None in names:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _open_session(request: ShareFetchRequest, group_id: str, member_id: str, ctx: Context) -> ShareSession | None:
    config, rules = ctx.node.config, ctx.cluster.rules
    session_max = config.integer("group.share.max.share.sessions")
    if rules.sessions.limited_by_groups:
        session_max = int(config.given.get(_GROUPS_MAX, _GROUPS_MAX_DEFAULT)) * config.integer("group.share.max.size")
    return ctx.node.share_sessions.open_session(
        group_id,
        member_id,
        _requested_partitions(request, ctx),
        connection_id=ctx.connection.id,
        session_max=session_max,
        idle_ms=rules.sessions.idle_eviction_ms,
        now_ms=ctx.now_ms,
    )


def _reject_after_max_wait(deadline_ms: int, ctx: Context) -> Outcome:
    """When the session limit is reached, the error is sent only after MaxWaitMs (share-semantics 4.3)."""
    if ctx.now_ms >= deadline_ms:
        return Reply(ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_LIMIT_REACHED))
    return Park(deadline_ms, (), lambda later: _reject_after_max_wait(deadline_ms, later))


def _requested_partitions(request: ShareFetchRequest, ctx: Context) -> list[RequestedPartition]:
    result = []
    for topic in request.topics:
        existing_topic = ctx.cluster.metadata.topic_by_id(topic.topic_id)
        name = None if existing_topic is None else existing_topic.name
        for partition in topic.partitions:
            key = PartitionKey(topic.topic_id, partition.partition_index)
            result.append(RequestedPartition(key, name, partition.partition_max_bytes))
    if ctx.cluster.rules.fetch.has_partition_max_bytes:
        # Partitions with MaxBytes 0 are only acknowledged; of a partition that is listed twice the last entry is used.
        result = list({row.key: row for row in result if row.max_bytes > 0}.values())
    return result


def _forgotten_partitions(request: ShareFetchRequest) -> list[PartitionKey]:
    return [
        PartitionKey(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions
    ]


def _acknowledge_response(work: PendingAcknowledgements, group_id: str, ctx: Context) -> ShareAcknowledgeResponse:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    hints: LeaderHints[LeaderIdAndEpoch, NodeEndpoint] | None = None
    for key, row in work.rows.items():
        data = PartitionData(key.partition_index, row.code, row.message)
        if row.code in LEADER_ERRORS:
            hints = LeaderHints(LeaderIdAndEpoch, NodeEndpoint, ctx) if hints is None else hints
            hints.set_leader(data, *key)
        topic = topics.get(key.topic_id)
        if topic is None:
            topic = topics[key.topic_id] = ShareAcknowledgeTopicResponse(key.topic_id)
        topic.partitions.append(data)
    lock_ms = ctx.node.group_config(group_id)["share.record.lock.duration.ms"]
    assert isinstance(lock_ms, int)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=list(topics.values()),
        node_endpoints=[] if hints is None else hints.endpoints(),
    )
