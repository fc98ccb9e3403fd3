"""CreateTopics (19) and DeleteTopics (20)."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

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
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import (
    AclOperation,
    ResourceType,
    authorize,
    is_authorized,
    is_authorized_on_cluster,
)
from mockbroker.handlers.shared.controller_timeout import check_controller_timeout
from mockbroker.handlers.shared.mutation_quota import record_partition_changes
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import Topic
from mockbroker.state.metadata.config_changes import check_config
from mockbroker.state.metadata.config_entries import creation_entries
from mockbroker.state.metadata.configs import Resource, ResourceKind
from mockbroker.state.metadata.record_limit import RECORDS_MAX, check_record_count, count_config_records

#: Kafka's controller creates at most this many partitions for one request.
PARTITIONS_MAX = RECORDS_MAX
_METADATA_TOPIC = "__cluster_metadata"
_DISABLED_SINCE = 3
#: The first versions that are refused, instead of only throttled, when a quota is exhausted (KIP-599).
_CREATION_STRICT_SINCE, _DELETION_STRICT_SINCE = 6, 5
_NO_DELETE = "DELETE is not allowed."


def create_topics(request: CreateTopicsRequest, ctx: Context) -> Outcome:
    """Create each topic; with validate_only only check it. Rows fail one by one.

    Pinned by the conversation other-create-topics-collision.
    """
    named = Counter(topic.name for topic in request.topics)
    forwarded = [topic for topic in request.topics if named[topic.name] == 1 and _may_create(topic.name, ctx)]
    default = ctx.cluster.config.integer("num.partitions")
    partition_count = sum(
        len(topic.assignments) or (default if topic.num_partitions == -1 else max(topic.num_partitions, 0))
        for topic in forwarded
    )
    if partition_count > PARTITIONS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{partition_count} partitions are more than {PARTITIONS_MAX}")
    if forwarded:
        check_controller_timeout(request.timeout_ms)
    plans = [_plan_creation(topic, ctx) for topic in request.topics if named[topic.name] == 1]
    check_record_count(sum(plan.count_records(ctx) for plan in plans if isinstance(plan, _Plan)))
    shown = _ShownConfigs(ctx)
    rows = [_creation_row(plan, shown, ctx, validate_only=request.validate_only) for plan in plans]
    duplicate = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    rows += [_creation_error(name, duplicate) for name, times in named.items() if times > 1]
    return Reply(CreateTopicsResponse(topics=rows))


def refuse_create_topics(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    """A response with the error in every row."""
    return CreateTopicsResponse(topics=[_creation_error(topic.name, error) for topic in request.topics])


def delete_topics(request: DeleteTopicsRequest, ctx: Context) -> Outcome:
    """Delete topics by name or id. Rows fail one by one. Source: Kafka's ControllerApis.deleteTopics."""
    if not ctx.cluster.config.boolean("delete.topic.enable"):
        old = ctx.api_version < _DISABLED_SINCE
        raise KafkaError(ErrorCode.INVALID_REQUEST if old else ErrorCode.TOPIC_DELETION_DISABLED)
    states = [DeleteTopicState(name) for name in request.topic_names] or request.topics
    rows = [_ambiguous_row(state) for state in states if not _is_identified(state)]
    named = Counter((state.name, state.topic_id) for state in states if _is_identified(state))
    if 1 in named.values():
        check_controller_timeout(request.timeout_ms)
    deletable = []
    for (name, topic_id), times in named.items():
        try:
            topic = _find_topic_to_delete(name, topic_id, ctx, times=times)
        except KafkaError as error:
            rows.append(DeletableTopicResult(name, topic_id, error.code, error.message))
            continue
        if _may_delete(topic.name, ctx):
            deletable.append(topic)
            continue
        shown = name or (
            topic.name if is_authorized(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name, ctx) else None
        )
        rows.append(DeletableTopicResult(shown, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _NO_DELETE))
    # A topic that is listed by name and by id is not deleted.
    double_ids = [topic_id for (name, topic_id), times in named.items() if name is None and times > 1]
    meant = Counter([topic.topic_id for topic in deletable] + double_ids)
    record_count = 0
    for topic in {topic.topic_id: topic for topic in deletable}.values():
        if meant[topic.topic_id] > 1:
            why = "The provided topic name maps to an ID that was already supplied."
            rows.append(DeletableTopicResult(topic.name, topic.topic_id, ErrorCode.INVALID_REQUEST, why))
            continue
        try:
            record_partition_changes(len(topic.partitions), ctx, strict_since=_DELETION_STRICT_SINCE)
            if record_count == RECORDS_MAX:
                # As in Kafka, whose controller deletes those before. Source: ReplicationControlManager.deleteTopics.
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{RECORDS_MAX} topics are deleted already")
            ctx.cluster.metadata.delete_topic(topic)
            record_count += 1
        except KafkaError as error:  # Its client is throttled, or the metadata log cannot be written.
            rows.append(DeletableTopicResult(topic.name, topic.topic_id, error.code, error.message))
        else:
            rows.append(DeletableTopicResult(topic.name, topic.topic_id))
    return Reply(DeleteTopicsResponse(responses=rows))


def refuse_delete_topics(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """A response with the error in every row."""
    states = request.topics or [DeleteTopicState(name) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(state.name, state.topic_id, error.code, error.message) for state in states]
    )


def _may_delete(name: str, ctx: Context) -> bool:
    on_cluster = is_authorized_on_cluster(AclOperation.DELETE, ctx)
    return on_cluster or is_authorized(AclOperation.DELETE, ResourceType.TOPIC, name, ctx)


def _may_create(name: str, ctx: Context) -> bool:
    if name == _METADATA_TOPIC:
        return False
    on_cluster = is_authorized_on_cluster(AclOperation.CREATE, ctx)
    return on_cluster or is_authorized(AclOperation.CREATE, ResourceType.TOPIC, name, ctx)


class _Plan(NamedTuple):
    """A topic that can be created, with its configuration."""

    topic: Topic
    configs: dict[str, str]

    def count_records(self, ctx: Context) -> int:
        """The records of the metadata log: of the topic, its configuration, and its partitions."""
        resource = Resource(ResourceKind.TOPIC, self.topic.name)
        configs = count_config_records(resource, {}, self.configs, (), has_elr=ctx.cluster.configs.elr)
        return 1 + configs + len(self.topic.partitions)


def _plan_creation(creatable: CreatableTopic, ctx: Context) -> _Plan | CreatableTopicResult:
    """The topic, or the row of its error. Topics of the same request do not collide with each other.

    Its partitions count for quotas, even if the topic is only checked.
    """
    try:
        plan = _plan_topic(creatable, ctx)
        record_partition_changes(len(plan.topic.partitions), ctx, strict_since=_CREATION_STRICT_SINCE)
        return plan
    except KafkaError as error:
        return _creation_error(creatable.name, error)


class _ShownConfigs:
    """The configurations in the rows of a response: topics that are created with the same have the same."""

    def __init__(self, ctx: Context) -> None:
        self._configs = ctx.cluster.configs
        self._made: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    def find(self, given: dict[str, str]) -> list[CreatableTopicConfigs]:
        """The effective configuration of a topic with these values of its own."""
        key = tuple(given.items())
        rows = self._made.get(key)
        if rows is None:
            rows = self._made[key] = [
                CreatableTopicConfigs(entry.name, entry.value, entry.read_only, entry.source, entry.sensitive)
                for entry in creation_entries(self._configs, given)
            ]
        return rows


def _creation_row(
    plan: _Plan | CreatableTopicResult, shown: _ShownConfigs, ctx: Context, *, validate_only: bool
) -> CreatableTopicResult:
    if isinstance(plan, CreatableTopicResult):
        return plan
    topic, given = plan
    configs = ctx.cluster.configs
    row = CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=topic.replication_factor,
        configs=shown.find(given),
    )
    if not is_authorized(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, ctx):
        row = CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    if not validate_only:
        configs.set_overrides(Resource(ResourceKind.TOPIC, topic.name), given)
        ctx.cluster.metadata.add_topic(topic)
    return row


def _plan_topic(creatable: CreatableTopic, ctx: Context) -> _Plan:
    """The topic with its configuration, checked in Kafka's order: name, configuration, then partitions."""
    if creatable.name == _METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {_METADATA_TOPIC} is prohibited.")
    if not _may_create(creatable.name, ctx):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "CREATE is not allowed.")
    metadata = ctx.cluster.metadata
    metadata.check_topic_name(creatable.name)
    empty = [config.name for config in creatable.configs if config.value is None]
    if empty:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(empty)}")
    given = {config.name: config.value for config in creatable.configs if config.value is not None}
    check_config(ctx.cluster.configs, Resource(ResourceKind.TOPIC, creatable.name), given)
    if not creatable.assignments:
        count = None if creatable.num_partitions == -1 else creatable.num_partitions
        factor = None if creatable.replication_factor == -1 else creatable.replication_factor
        if factor is not None and factor <= 0:
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, f"replication factor {factor} is not above 0")
        return _Plan(metadata.plan_topic(creatable.name, partition_count=count, replication_factor=factor), given)
    if creatable.replication_factor != -1 or creatable.num_partitions != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "with a manual assignment, replication factor and partition count are -1"
        )
    assignments = {row.partition_index: row.broker_ids for row in creatable.assignments}
    for index, count in Counter(row.partition_index for row in creatable.assignments).items():
        if count > 1:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index} is assigned {count} times")
    return _Plan(metadata.plan_topic(creatable.name, assignments=assignments), given)


def _creation_error(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def _is_identified(state: DeleteTopicState) -> bool:
    """Whether it has either a name or an id."""
    return (state.name is None) != (state.topic_id == uuids.ZERO)


def _ambiguous_row(state: DeleteTopicState) -> DeletableTopicResult:
    """The row of a topic with a name and an id, or with neither."""
    problem = "neither a name nor an id" if state.name is None else "a name and an id"
    return DeletableTopicResult(state.name, state.topic_id, ErrorCode.INVALID_REQUEST, f"the topic has {problem}")


def _find_topic_to_delete(name: str | None, topic_id: bytes, ctx: Context, *, times: int) -> Topic:
    """The topic that a row names."""
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
    if name is not None and not is_authorized_on_cluster(AclOperation.DELETE, ctx):
        authorize(AclOperation.DESCRIBE, ResourceType.TOPIC, name, ctx, message=_NO_DELETE)
    metadata = ctx.cluster.metadata
    topic = metadata.topic_by_id(topic_id) if name is None else metadata.topic(name)
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise KafkaError(unknown, f"This server has no topic with this {'ID' if name is None else 'name'}.")
    return topic
