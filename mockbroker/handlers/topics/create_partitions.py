"""CreatePartitions (37): add partitions to topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kwire.error_codes import ErrorCode
from kwire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, is_authorized
from mockbroker.handlers.shared.controller_timeout import check_controller_timeout
from mockbroker.handlers.shared.mutation_quota import record_partition_changes
from mockbroker.handlers.topics.topics import PARTITIONS_MAX
from mockbroker.kafka_error import KafkaError
from mockbroker.state.java.hash_order import JavaMap
from mockbroker.state.metadata.record_limit import RECORDS_MAX, check_row_count
from mockbroker.state.metadata.topics import java_hash


def create_partitions(request: CreatePartitionsRequest, ctx: Context) -> Outcome:
    """Add partitions to each topic, or with validate_only only check it; rows fail one by one, in Kafka's order.

    Raises: POLICY_VIOLATION for too many partitions in all, and for too many rows that the controller gets.
    Pinned by the conversations other-create-partitions-errors and other-create-partitions-many.
    """
    named = Counter(topic.name for topic in request.topics)
    single = [topic for topic in request.topics if named[topic.name] == 1]
    if ctx.cluster.release.admin.limits_added_partitions:
        _check_added_count(single, ctx)
    rows = [CreatePartitionsTopicResult(name, *_DUPLICATE_TOPIC) for name, times in named.items() if times > 1]
    if any(_may_alter(topic, ctx) for topic in single):
        check_controller_timeout(request.timeout_ms)
    if len(single) > RECORDS_MAX:
        check_row_count(sum(_may_alter(topic, ctx) for topic in single))
    additions = _PartitionAdditions(ctx, validate_only=request.validate_only)
    for topic in _in_set_order(request.topics):
        if named[topic.name] > 1:
            continue
        row = CreatePartitionsTopicResult(topic.name)
        try:
            authorize(AclOperation.ALTER, ResourceType.TOPIC, topic.name, ctx)
            additions.add_partitions(topic)
        except KafkaError as error:
            row.error_code, row.error_message = error.code, error.message
        rows.append(row)
    return Reply(CreatePartitionsResponse(results=rows))


def _may_alter(topic: CreatePartitionsTopic, ctx: Context) -> bool:
    return is_authorized(AclOperation.ALTER, ResourceType.TOPIC, topic.name, ctx)


def _in_set_order(topics: Sequence[CreatePartitionsTopic]) -> list[CreatePartitionsTopic]:
    """The topics in the iteration order of the HashSet of their names."""
    by_name = JavaMap[str, CreatePartitionsTopic](java_hash)
    for topic in topics:
        by_name[topic.name] = topic
    return [by_name[name] for name in by_name]


def refuse_create_partitions(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    """A response with the error in every row."""
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(topic.name, error.code, error.message) for topic in request.topics]
    )


def _check_added_count(requested: Sequence[CreatePartitionsTopic], ctx: Context) -> None:
    """Check how many partitions are added in all to topics that exist. Raises: POLICY_VIOLATION."""
    topics = ((wanted.count, ctx.cluster.metadata.topic(wanted.name)) for wanted in requested)
    added = sum(max(0, count - len(topic.partitions)) for count, topic in topics if topic is not None)
    if added > PARTITIONS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{added} more partitions are more than {PARTITIONS_MAX}")


#: The first version that is refused, instead of only throttled, when a quota is exhausted (KIP-599).
_STRICT_SINCE = 3
_DUPLICATE_TOPIC = (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


class _PartitionAdditions:
    """The additions of one request, each of which needs a record of the controller for each partition."""

    def __init__(self, ctx: Context, *, validate_only: bool) -> None:
        self._ctx = ctx
        self._metadata = ctx.cluster.metadata
        self._validate_only = validate_only
        self._records_left = PARTITIONS_MAX

    def add_partitions(self, wanted: CreatePartitionsTopic) -> None:
        """Add the partitions of one topic, or only check them.

        They count for quotas in either case. Raises: UNKNOWN_TOPIC_OR_PARTITION, the errors of `plan_partitions`,
        THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SERVER_ERROR when the request has more records than a controller writes at
        once.
        """
        topic = self._metadata.topic(wanted.name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assignments = None if wanted.assignments is None else [row.broker_ids for row in wanted.assignments]
        self._metadata.check_added_partitions(topic, wanted.count, assignments)
        record_partition_changes(wanted.count - len(topic.partitions), self._ctx, strict_since=_STRICT_SINCE)
        partitions = self._metadata.plan_partitions(topic, wanted.count, assignments)
        has_records = len(partitions) <= self._records_left
        self._records_left = max(0, self._records_left - len(partitions))
        if not has_records:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if not self._validate_only:
            self._metadata.add_partitions(topic, partitions)
