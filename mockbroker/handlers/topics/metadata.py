"""Metadata (3): brokers, and partitions with their leaders."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import (
    AclOperation,
    ResourceType,
    authorized_operations,
    cluster_operations,
    is_authorized,
    is_authorized_on_cluster,
)
from mockbroker.handlers.shared.broker_addresses import NO_OPERATIONS, broker_address, sorted_brokers
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import Partition, Topic, is_internal_topic, is_valid_topic_name
from mockbroker.state.metadata.topics import INTERNAL_TOPICS

#: From this version topics can be requested by id.
_IDS_SINCE = 12


def metadata(request: MetadataRequest, ctx: Context) -> Outcome:
    """Return brokers and topics; unknown topics are created where broker and client both allow it.

    A topic created here is returned with UNKNOWN_TOPIC_OR_PARTITION, as in Kafka; the client retries.
    Pinned by the conversations other-metadata-errors and other-metadata-old-versions.
    """
    rows = _topic_rows(request, ctx)
    if request.include_topic_authorized_operations:
        for row in rows:
            if row.name is not None and row.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                row.topic_authorized_operations = authorized_operations(ResourceType.TOPIC, row.name, ctx)
    includes_operations = request.include_cluster_authorized_operations
    return Reply(
        MetadataResponse(
            brokers=[_broker_row(node.node_id, *broker_address(node, ctx), node.rack) for node in sorted_brokers(ctx)],
            cluster_id=ctx.cluster.cluster_id,
            controller_id=ctx.cluster.metadata.controller_id,
            topics=rows,
            cluster_authorized_operations=cluster_operations(ctx) if includes_operations else NO_OPERATIONS,
        )
    )


def refuse_metadata(request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    """A response with the error in every row, and at the top level where the version has one."""
    rows = [
        MetadataResponseTopic(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=rows, error_code=error.code)


def _may_describe(name: str, ctx: Context) -> bool:
    return is_authorized(AclOperation.DESCRIBE, ResourceType.TOPIC, name, ctx)


def _may_create(name: str, ctx: Context) -> bool:
    on_cluster = is_authorized_on_cluster(AclOperation.CREATE, ctx)
    return on_cluster or is_authorized(AclOperation.CREATE, ResourceType.TOPIC, name, ctx)


def _topic_rows(request: MetadataRequest, ctx: Context) -> list[MetadataResponseTopic]:
    cluster_image = ctx.cluster.metadata
    # Version 0 has no null: there an empty list stands for all topics.
    if request.topics is None or (ctx.api_version == 0 and not request.topics):
        return [_topic_row(topic, ctx) for topic in cluster_image.topics() if _may_describe(topic.name, ctx)]
    ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != uuids.ZERO)
    if ctx.api_version < _IDS_SINCE and (ids or any(topic.name is None for topic in request.topics)):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"topics have to be requested by name in version {ctx.api_version}")
    if ids:
        return [_topic_row_by_id(topic_id, ctx) for topic_id in ids]
    if any(topic.name is None for topic in request.topics):
        # Neither name nor id: Kafka fails with a server error.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    names = dict.fromkeys(topic.name for topic in request.topics if topic.name is not None)
    may_create = request.allow_auto_topic_creation and ctx.node.config.boolean("auto.create.topics.enable")
    return list(_topic_rows_by_name(names, ctx, may_create=may_create))


def _topic_rows_by_name(names: Iterable[str], ctx: Context, *, may_create: bool) -> Iterable[MetadataResponseTopic]:
    for name in names:
        if not _may_describe(name, ctx):
            # The response does not reveal whether the topic exists.
            yield MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
            continue
        topic = ctx.cluster.metadata.topic(name)
        if topic is not None:
            yield _topic_row(topic, ctx)
            continue
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if may_create and not _may_create(name, ctx):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not is_valid_topic_name(name):
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif may_create:
            # Errors of the controller (a colliding name) show only when the client requests the topic again.
            with suppress(KafkaError):
                _create_topic(name, ctx)
        yield MetadataResponseTopic(error_code=code, name=name, is_internal=is_internal_topic(name))


def _topic_row_by_id(topic_id: bytes, ctx: Context) -> MetadataResponseTopic:
    topic = ctx.cluster.metadata.topic_by_id(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not _may_describe(topic.name, ctx):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id)
    return _topic_row(topic, ctx)


def _create_topic(name: str, ctx: Context) -> None:
    for kind, internal in INTERNAL_TOPICS.items():
        if name == internal.name:
            ctx.cluster.metadata.ensure_internal_topic(kind)
            return
    topic = ctx.cluster.metadata.plan_topic(name)
    # The broker sends CreateTopics for the client: the answer to that request alone has an error and a throttle time.
    if ctx.throttle is None or ctx.throttle.try_mutations(len(topic.partitions), now_ms=ctx.now_ms) is None:
        ctx.cluster.metadata.add_topic(topic)


def _topic_row(topic: Topic, ctx: Context) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[_partition_row(partition) for partition in topic.partitions],
    )


def _partition_row(partition: Partition) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if partition.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=partition.offline,
    )


def _broker_row(node_id: int, host: str, port: int, rack: str | None) -> MetadataResponseBroker:
    return MetadataResponseBroker(node_id, host, port, rack)
