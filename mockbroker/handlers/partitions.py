"""CreatePartitions (37): topics grow."""

from __future__ import annotations

from collections import Counter

from kwire.error_codes import ErrorCode
from kwire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import Operation, ResourceType, must


def create_partitions(request: CreatePartitionsRequest, ctx: Context) -> Outcome:
    """Grow each topic, or only say whether it could grow. Rows fail one by one.

    Pinned by the conversation other-create-partitions-errors.
    """
    named = Counter(topic.name for topic in request.topics)
    rows = [CreatePartitionsTopicResult(name, *_DUPLICATE) for name, times in named.items() if times > 1]
    for topic in request.topics:
        if named[topic.name] > 1:
            continue
        row = CreatePartitionsTopicResult(topic.name)
        try:
            must(Operation.ALTER, ResourceType.TOPIC, topic.name, ctx)
            _grow(topic, ctx, validate_only=request.validate_only)
        except KafkaError as error:
            row.error_code, row.error_message = error.code, error.message
        rows.append(row)
    return Reply(CreatePartitionsResponse(results=rows))


def refuse_create_partitions(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    """A response that carries an error in every row."""
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(topic.name, error.code, error.message) for topic in request.topics]
    )


_DUPLICATE = (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def _grow(wanted: CreatePartitionsTopic, ctx: Context, *, validate_only: bool) -> None:
    metadata = ctx.cluster.metadata
    topic = metadata.topic(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assignments = None if wanted.assignments is None else [row.broker_ids for row in wanted.assignments]
    partitions = metadata.plan_partitions(topic, wanted.count, assignments)
    if not validate_only:
        metadata.grow(topic, partitions)
