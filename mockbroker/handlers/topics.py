"""CreateTopics (19) and DeleteTopics (20)."""

from __future__ import annotations

from collections import Counter

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, may, must
from mockbroker.state.config_changes import check
from mockbroker.state.config_entries import creation_entries
from mockbroker.state.configs import Resource, ResourceKind
from mockbroker.state.metadata import Topic

#: Kafka's controller makes no more partitions than this for one request.
_PARTITIONS_MAX = 10_000
_METADATA_TOPIC = "__cluster_metadata"
_DISABLED_SINCE = 3
_NO_DELETE = "DELETE is not allowed."


def create_topics(request: CreateTopicsRequest, ctx: Context) -> Outcome:
    """Make each topic, or only say whether it could be made. Rows fail one by one.

    Pinned by the conversation other-create-topics-collision.
    """
    default = ctx.cluster.config.integer("num.partitions")
    asked = sum(
        len(topic.assignments) or (default if topic.num_partitions == -1 else max(topic.num_partitions, 0))
        for topic in request.topics
    )
    if asked > _PARTITIONS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{asked} partitions are more than {_PARTITIONS_MAX}")
    named = Counter(topic.name for topic in request.topics)
    rows = [
        _creation_row(topic, ctx, validate_only=request.validate_only)
        for topic in request.topics
        if named[topic.name] == 1
    ]
    duplicate = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    rows += [_not_created(name, duplicate) for name, times in named.items() if times > 1]
    return Reply(CreateTopicsResponse(topics=rows))


def refuse_create_topics(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    """A response that carries an error in every row."""
    return CreateTopicsResponse(topics=[_not_created(topic.name, error) for topic in request.topics])


def delete_topics(request: DeleteTopicsRequest, ctx: Context) -> Outcome:
    """Delete topics by name or id. Rows fail one by one. Source: Kafka's ControllerApis.deleteTopics."""
    if not ctx.cluster.config.flag("delete.topic.enable"):
        old = ctx.api_version < _DISABLED_SINCE
        raise KafkaError(ErrorCode.INVALID_REQUEST if old else ErrorCode.TOPIC_DELETION_DISABLED)
    states = [DeleteTopicState(name) for name in request.topic_names] or request.topics
    named = Counter((state.name, state.topic_id) for state in states)
    rows, found = [], []
    for (name, topic_id), times in named.items():
        try:
            topic = _doomed(name, topic_id, ctx, times=times)
        except KafkaError as error:
            rows.append(DeletableTopicResult(name, topic_id, error.code, error.message))
            continue
        if _may_delete(topic.name, ctx):
            found.append(topic)
            continue
        shown = name or (topic.name if may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, ctx) else None)
        rows.append(DeletableTopicResult(shown, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _NO_DELETE))
    # A topic may be named once by its name and once by its id: then it stays.
    meant = Counter(topic.topic_id for topic in found)
    for topic in {topic.topic_id: topic for topic in found}.values():
        if meant[topic.topic_id] > 1:
            why = "The provided topic name maps to an ID that was already supplied."
            rows.append(DeletableTopicResult(topic.name, topic.topic_id, ErrorCode.INVALID_REQUEST, why))
            continue
        ctx.cluster.metadata.delete_topic(topic)
        rows.append(DeletableTopicResult(topic.name, topic.topic_id))
    return Reply(DeleteTopicsResponse(responses=rows))


def refuse_delete_topics(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """A response that carries an error in every row."""
    states = request.topics or [DeleteTopicState(name) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(state.name, state.topic_id, error.code, error.message) for state in states]
    )


def _may_delete(name: str, ctx: Context) -> bool:
    on_cluster = may(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
    return on_cluster or may(Operation.DELETE, ResourceType.TOPIC, name, ctx)


def _creation_row(wanted: CreatableTopic, ctx: Context, *, validate_only: bool) -> CreatableTopicResult:
    try:
        topic, given = _planned(wanted, ctx)
    except KafkaError as error:
        return _not_created(wanted.name, error)
    configs = ctx.cluster.configs
    row = CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=topic.replication_factor,
        configs=[
            CreatableTopicConfigs(entry.name, entry.value, entry.read_only, entry.source, entry.sensitive)
            for entry in creation_entries(configs, given)
        ],
    )
    if not may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, ctx):
        row = CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    if not validate_only:
        configs.put(Resource(ResourceKind.TOPIC, topic.name), given)
        ctx.cluster.metadata.add(topic)
    return row


def _planned(wanted: CreatableTopic, ctx: Context) -> tuple[Topic, dict[str, str]]:
    """The topic with its configuration, checked in Kafka's order: name, configuration, then its partitions."""
    if wanted.name == _METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {_METADATA_TOPIC} is prohibited.")
    if not may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, ctx):
        must(Operation.CREATE, ResourceType.TOPIC, wanted.name, ctx, message="CREATE is not allowed.")
    metadata = ctx.cluster.metadata
    metadata.check_name(wanted.name)
    empty = [config.name for config in wanted.configs if config.value is None]
    if empty:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(empty)}")
    given = {config.name: config.value for config in wanted.configs if config.value is not None}
    check(ctx.cluster.configs, Resource(ResourceKind.TOPIC, wanted.name), given)
    if not wanted.assignments:
        count = None if wanted.num_partitions == -1 else wanted.num_partitions
        factor = None if wanted.replication_factor == -1 else wanted.replication_factor
        if factor is not None and factor <= 0:
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, f"replication factor {factor} is not above 0")
        return metadata.plan_topic(wanted.name, partition_count=count, replication_factor=factor), given
    if wanted.replication_factor != -1 or wanted.num_partitions != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "with a manual assignment, replication factor and partition count are -1"
        )
    assignments = {row.partition_index: row.broker_ids for row in wanted.assignments}
    if len(assignments) != len(wanted.assignments):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice")
    return metadata.plan_topic(wanted.name, assignments=assignments), given


def _not_created(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def _doomed(name: str | None, topic_id: bytes, ctx: Context, *, times: int) -> Topic:
    """The topic that a row means."""
    if name is None and topic_id == uuids.ZERO:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != uuids.ZERO:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
    if name is not None and not may(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME, ctx):
        must(Operation.DESCRIBE, ResourceType.TOPIC, name, ctx, message=_NO_DELETE)
    metadata = ctx.cluster.metadata
    topic = metadata.topic_by_id(topic_id) if name is None else metadata.topic(name)
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise KafkaError(unknown, "This server has no such topic.")
    return topic
