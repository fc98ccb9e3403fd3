"""Internal topics of streams applications, which the broker creates for their members.

Source: Kafka's KafkaApis.handleStreamsGroupHeartbeat and AutoTopicCreationManager; pinned by the conversations
other-streams-internal-topics, other-streams-internal-topics-refused and other-streams-acl.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial

from kwire.error_codes import ErrorCode
from kwire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Reply
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, is_authorized, is_authorized_on_cluster
from mockbroker.handlers.topics.topics import create_topics
from mockbroker.state.streams.streams_topics import StatusCode, StreamsStatus
from mockbroker.state.streams.streams_topology import StreamsInternalTopic

_CREATE_VERSION = 7
_LISTED_MAX = 3


def create_missing_topics(
    missing: Sequence[StreamsInternalTopic], statuses: Sequence[StreamsStatus], ctx: Context, *, retry_after_ms: int
) -> list[StreamsStatus]:
    """Create topics with the member's own permissions; the heartbeat's response does not wait for it.

    retry_after_ms: how long a failed topic is not retried.
    Returns the statuses, with the reasons of failed topics.
    """
    if not missing:
        return list(statuses)
    names = [topic.name for topic in missing]
    if not is_authorized_on_cluster(AclOperation.CREATE, ctx):
        denied = [name for name in names if not is_authorized(AclOperation.CREATE, ResourceType.TOPIC, name, ctx)]
        if denied:
            return _with_reason(statuses, f"the client may not create {', '.join(denied)}")
    failed = ctx.node.groups.topic_creation_errors.find_errors(names, now_ms=ctx.now_ms)
    creatable = [_to_creatable_topic(topic) for topic in missing if topic.name not in failed]
    if creatable:
        create = partial(_create_topics, creatable, ctx, retry_after_ms)
        ctx.cluster.inter_broker.schedule(0, create, now_ms=ctx.now_ms)
    if not failed:
        return list(statuses)
    shown = ", ".join(f"{name} ({why})" for name, why in list(failed.items())[:_LISTED_MAX])
    more = f" and {len(failed) - _LISTED_MAX} more" if len(failed) > _LISTED_MAX else ""
    return _with_reason(statuses, f"could not be created: {shown}{more}")


def _with_reason(statuses: Sequence[StreamsStatus], why: str) -> list[StreamsStatus]:
    missing = StatusCode.MISSING_INTERNAL_TOPICS
    return [StreamsStatus(row.code, f"{row.detail}; {why}") if row.code is missing else row for row in statuses]


def _to_creatable_topic(topic: StreamsInternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor or -1,
        configs=[CreatableTopicConfig(name, value) for name, value in topic.configs],
    )


def _create_topics(creatable: list[CreatableTopic], ctx: Context, retry_after_ms: int, now_ms: int) -> None:
    """Create topics in the controller; a topic that another member has created meanwhile is no error."""
    topics = [topic for topic in creatable if ctx.cluster.metadata.topic(topic.name) is None]
    later = copy(ctx)
    later.now_ms, later.api_version = now_ms, _CREATE_VERSION
    outcome = create_topics(CreateTopicsRequest(topics=topics), later)
    assert isinstance(outcome, Reply)
    response = outcome.response
    assert isinstance(response, CreateTopicsResponse)
    for row in response.topics:
        if row.error_code != ErrorCode.NONE:
            why = row.error_message or ErrorCode(row.error_code).name
            ctx.node.groups.topic_creation_errors.add_error(row.name, why, until_ms=now_ms + retry_after_ms)
