"""Metadata (3) and DescribeCluster (60): who is there, and who leads what."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from kwire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from mockbroker.context import Context
from mockbroker.handlers.brokers import NO_OPERATIONS, address, brokers
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, may, operations_on
from mockbroker.state.metadata import Partition, Topic, is_internal, is_valid_topic_name
from mockbroker.state.topics import INTERNAL_TOPICS

#: Topics are asked for by id from this version on.
_IDS_SINCE = 12
_BROKERS, _CONTROLLERS = 1, 2


def metadata(request: MetadataRequest, ctx: Context) -> Outcome:
    """Tell brokers and topics; unknown topics are made where broker and client both allow it.

    A topic made here is answered with UNKNOWN_TOPIC_OR_PARTITION, as in Kafka; the client asks again.
    Pinned by the conversations other-metadata-errors and other-metadata-old-versions.
    """
    rows = _rows(request, ctx)
    if request.include_topic_authorized_operations:
        for row in rows:
            if row.name is not None and row.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                row.topic_authorized_operations = operations_on(ResourceType.TOPIC, row.name, ctx)
    asked = request.include_cluster_authorized_operations
    return Reply(
        MetadataResponse(
            brokers=[_broker_row(node.node_id, *address(node, ctx), node.rack) for node in brokers(ctx)],
            cluster_id=ctx.cluster.cluster_id,
            controller_id=ctx.cluster.metadata.controller_id,
            topics=rows,
            cluster_authorized_operations=_cluster_operations(ctx) if asked else NO_OPERATIONS,
        )
    )


def refuse_metadata(request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    """A response that carries an error: in every row, and at the top where the version has a place for it."""
    rows = [
        MetadataResponseTopic(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=rows, error_code=error.code)


def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> Outcome:
    """Tell the brokers; a broker knows nothing of controllers. Pinned by the conversation other-describe-cluster."""
    if request.endpoint_type == _CONTROLLERS:
        raise KafkaError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this listener leads to brokers, not to controllers")
    if request.endpoint_type != _BROKERS:
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {request.endpoint_type}")
    asked = request.include_cluster_authorized_operations
    return Reply(
        DescribeClusterResponse(
            cluster_id=ctx.cluster.cluster_id,
            controller_id=ctx.cluster.metadata.controller_id,
            brokers=_cluster_rows(request, ctx),
            cluster_authorized_operations=_cluster_operations(ctx) if asked else NO_OPERATIONS,
        )
    )


def _cluster_rows(request: DescribeClusterRequest, ctx: Context) -> list[DescribeClusterBroker]:
    """The brokers; if asked for also those that are registered and down (KIP-1073)."""
    rows = [DescribeClusterBroker(node.node_id, *address(node, ctx), node.rack) for node in brokers(ctx)]
    if request.include_fenced_brokers and ctx.cluster.controller is not None:
        rows += [
            DescribeClusterBroker(node.node_id, *address(node, ctx), node.rack, is_fenced=True)
            for node in ctx.cluster.controller.fenced.values()
        ]
    return sorted(rows, key=lambda row: row.broker_id)


def _cluster_operations(ctx: Context) -> int:
    """What the client may do to the cluster, and nothing at all if it may not describe it."""
    if not may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, ctx):
        return 0
    return operations_on(ResourceType.CLUSTER, CLUSTER_NAME, ctx)


def _is_shown(name: str, ctx: Context) -> bool:
    return may(Operation.DESCRIBE, ResourceType.TOPIC, name, ctx)


def _may_make(name: str, ctx: Context) -> bool:
    on_cluster = may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
    return on_cluster or may(Operation.CREATE, ResourceType.TOPIC, name, ctx)


def _rows(request: MetadataRequest, ctx: Context) -> list[MetadataResponseTopic]:
    known = ctx.cluster.metadata
    # Version 0 has no null, there an empty list stands for all topics.
    if request.topics is None or (ctx.api_version == 0 and not request.topics):
        return [_topic_row(topic, ctx) for topic in known.topics() if _is_shown(topic.name, ctx)]
    ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != uuids.ZERO)
    if ctx.api_version < _IDS_SINCE and (ids or any(topic.name is None for topic in request.topics)):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"topics are asked for by name in version {ctx.api_version}")
    if ids:
        return [_row_by_id(topic_id, ctx) for topic_id in ids]
    if any(topic.name is None for topic in request.topics):
        # Neither name nor id: Kafka trips over it, and so the client sees a server error.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    names = dict.fromkeys(topic.name for topic in request.topics if topic.name is not None)
    may_make = request.allow_auto_topic_creation and ctx.cluster.config.flag("auto.create.topics.enable")
    return list(_rows_by_name(names, ctx, may_make=may_make))


def _rows_by_name(names: Iterable[str], ctx: Context, *, may_make: bool) -> Iterable[MetadataResponseTopic]:
    for name in names:
        if not _is_shown(name, ctx):
            # Not even whether it exists.
            yield MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
            continue
        topic = ctx.cluster.metadata.topic(name)
        if topic is not None:
            yield _topic_row(topic, ctx)
            continue
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if may_make and not _may_make(name, ctx):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not is_valid_topic_name(name):
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif may_make:
            # What the controller refuses (a name that collides with another) shows only when the client asks again.
            with suppress(KafkaError):
                _make(name, ctx)
        yield MetadataResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


def _row_by_id(topic_id: bytes, ctx: Context) -> MetadataResponseTopic:
    topic = ctx.cluster.metadata.topic_by_id(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not _is_shown(topic.name, ctx):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id)
    return _topic_row(topic, ctx)


def _make(name: str, ctx: Context) -> None:
    for kind, internal in INTERNAL_TOPICS.items():
        if name == internal.name:
            ctx.cluster.metadata.make_internal_topic(kind)
            return
    ctx.cluster.metadata.create_topic(name)


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
