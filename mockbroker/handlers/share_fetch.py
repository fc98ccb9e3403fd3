"""ShareFetch (78) and ShareAcknowledge (79)."""

from __future__ import annotations

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
from mockbroker.handlers import share_acknowledgements
from mockbroker.handlers.share_acknowledgements import Acknowledgements
from mockbroker.handlers.share_fetch_wait import ShareFetchWait
from mockbroker.handlers.share_groups import must_have_share_groups
from mockbroker.handlers.share_leader import end_session, on_disconnect
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Park, Reply
from mockbroker.security.authorize import Operation, ResourceType, must
from mockbroker.state.share_session import FINAL_EPOCH, INITIAL_EPOCH, PartitionKey, Requested, ShareSession

if TYPE_CHECKING:
    from mockbroker.context import Context

__all__ = ["on_disconnect", "share_acknowledge", "share_fetch"]

_MEMBER_ID_SIZE_MAX = 36
#: A configuration that 4.3.0 does not have any more.
_GROUPS_MAX, _GROUPS_MAX_DEFAULT = "group.share.max.groups", "10"
#: KIP-1222 brought RENEW, and with it the rule that a renewing fetch fetches nothing.
_RENEWAL_SINCE = 2
#: How long an answer waits for writes before it looks again: longer than the persister retries.
_WRITE_WAIT_MS = 300_000


def share_fetch(request: ShareFetchRequest, ctx: Context) -> Outcome:
    """Deliver records to a member, and settle those that it says it is done with.

    Raises: UNSUPPORTED_VERSION, INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
    Source: share-semantics 1.7, 3.4 and 4; Kafka checks in this order.
    """
    group_id, member_id = _identify(request.group_id, request.member_id, ctx)
    renews = ctx.api_version >= _RENEWAL_SINCE and request.is_renew_ack
    if renews and (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    has_batches = any(partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions)
    session, rules = None, ctx.cluster.rules
    if request.share_session_epoch == FINAL_EPOCH and rules.partitions_have_limits and _requested(request, ctx):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.share_session_epoch == INITIAL_EPOCH:
        if has_batches:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        session = _open(request, group_id, member_id, ctx)
        if session is None and rules.sessions_by_groups:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if session is None:
            return _refuse_late(ctx.now_ms + request.max_wait_ms, ctx)
    else:
        session = ctx.node.share_sessions.step(group_id, member_id, request.share_session_epoch, now_ms=ctx.now_ms)
    if request.share_session_epoch > INITIAL_EPOCH:
        session.update(_requested(request, ctx), _forgotten(request))
    batches = share_acknowledgements.listed(request.topics) if has_batches else {}
    acknowledgements = share_acknowledgements.begin(ctx, group_id, member_id, batches, is_renewal=request.is_renew_ack)
    wait = ShareFetchWait(request, session, acknowledgements, ctx.now_ms + request.max_wait_ms)
    if request.share_session_epoch == FINAL_EPOCH or renews:
        wait.fetch_nothing()
    else:
        wait.begin(ctx)
    return wait.resume(ctx)


def share_acknowledge(request: ShareAcknowledgeRequest, ctx: Context) -> Outcome:
    """Settle records that this member holds. Source: share-semantics 3 and 4.3.

    Raises: UNSUPPORTED_VERSION, INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
    """
    group_id, member_id = _identify(request.group_id, request.member_id, ctx)
    if request.share_session_epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    ctx.node.share_sessions.step(group_id, member_id, request.share_session_epoch, now_ms=ctx.now_ms)
    work = share_acknowledgements.begin(
        ctx, group_id, member_id, share_acknowledgements.listed(request.topics), is_renewal=request.is_renew_ack
    )

    def resume(ctx: Context) -> Outcome:
        if work.pending:
            return Park(ctx.now_ms + _WRITE_WAIT_MS, (work.key,), resume)
        if request.share_session_epoch == FINAL_EPOCH:
            end_session(group_id, member_id, ctx)
        return Reply(_acknowledged(work, group_id, ctx))

    return resume(ctx)


def _identify(group_id: str | None, member_id: str | None, ctx: Context) -> tuple[str, str]:
    """Who asks, after the checks that consume no session epoch (share-semantics 4.2)."""
    must_have_share_groups(ctx)
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    must(Operation.READ, ResourceType.GROUP, group_id, ctx)
    if not member_id or len(member_id.encode("utf-16-le")) // 2 > _MEMBER_ID_SIZE_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return group_id, member_id


def _open(request: ShareFetchRequest, group_id: str, member_id: str, ctx: Context) -> ShareSession | None:
    config, rules = ctx.cluster.config, ctx.cluster.rules
    session_max = config.integer("group.share.max.share.sessions")
    if rules.sessions_by_groups:
        session_max = int(config.given.get(_GROUPS_MAX, _GROUPS_MAX_DEFAULT)) * config.integer("group.share.max.size")
    return ctx.node.share_sessions.open(
        group_id,
        member_id,
        _requested(request, ctx),
        connection_id=ctx.connection.id,
        session_max=session_max,
        idle_ms=rules.session_idle_ms,
        now_ms=ctx.now_ms,
    )


def _refuse_late(deadline_ms: int, ctx: Context) -> Outcome:
    """A full room refuses only after MaxWaitMs, so that a client does not ask again and again (4.3)."""
    if ctx.now_ms >= deadline_ms:
        return Reply(ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_LIMIT_REACHED))
    return Park(deadline_ms, (), lambda later: _refuse_late(deadline_ms, later))


def _requested(request: ShareFetchRequest, ctx: Context) -> list[Requested]:
    result = []
    for topic in request.topics:
        known = ctx.cluster.metadata.topic_by_id(topic.topic_id)
        name = None if known is None else known.name
        for partition in topic.partitions:
            key = PartitionKey(topic.topic_id, partition.partition_index)
            result.append(Requested(key, name, partition.partition_max_bytes))
    if ctx.cluster.rules.partitions_have_limits:
        # What has no room is only acknowledged; of a partition that is listed twice the last word counts.
        result = list({row.key: row for row in result if row.max_bytes > 0}.values())
    return result


def _forgotten(request: ShareFetchRequest) -> list[PartitionKey]:
    return [
        PartitionKey(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions
    ]


def _acknowledged(work: Acknowledgements, group_id: str, ctx: Context) -> ShareAcknowledgeResponse:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    endpoints: dict[int, NodeEndpoint] = {}
    for key, row in work.rows.items():
        data = PartitionData(key.partition_index, row.code, row.message)
        if row.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            place = ctx.cluster.metadata.leader(*key)
            if place is not None:
                data.current_leader = LeaderIdAndEpoch(place.leader, place.leader_epoch)
                node = ctx.cluster.nodes.get(place.leader)
                if node is not None:
                    endpoints[node.node_id] = NodeEndpoint(node.node_id, node.host, node.port, node.rack)
        topic = topics.setdefault(key.topic_id, ShareAcknowledgeTopicResponse(key.topic_id))
        topic.partitions.append(data)
    lock_ms = ctx.cluster.configs.group(group_id)["share.record.lock.duration.ms"]
    assert isinstance(lock_ms, int)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=list(topics.values()),
        node_endpoints=list(endpoints.values()),
    )
