"""What the describe APIs of all kinds of groups have in common: one row for each group, with or without an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.context import Context
from mockbroker.handlers.coordinators import must_coordinate
from mockbroker.handlers.group_access import HIDES_TOPICS, hides_topics
from mockbroker.kafka_error import KafkaError
from mockbroker.security.authorize import Operation, ResourceType, must, operations_on


class _Row(Protocol):
    group_id: str
    error_code: int
    authorized_operations: int


R = TypeVar("R", bound=_Row)


def described_rows(
    kind: Callable[..., R],
    group_ids: Iterable[str],
    describe: Callable[[str, Context], R],
    topics_of: Callable[[R], Iterable[str]],
    ctx: Context,
    *,
    tells_operations: bool,
) -> list[R]:
    """The rows of these groups, in this order.

    kind: the class of a row. describe: makes the row of a group that may be described and is coordinated here, or
    raises KafkaError. topics_of: the topics that a row tells of, all of which the client must see.
    """
    rows = [_row(kind, group_id, describe, ctx) for group_id in group_ids]
    if tells_operations:
        for row in rows:
            if row.error_code == ErrorCode.NONE:
                row.authorized_operations = operations_on(ResourceType.GROUP, row.group_id, ctx)
    return [_hidden(kind, row) if hides_topics(topics_of(row), ctx) else row for row in rows]


def refused_rows(kind: Callable[..., R], group_ids: Sequence[str], error: KafkaError) -> list[R]:
    """One row with the error for each group that was asked for."""
    return [_refused(kind, group_id, error) for group_id in group_ids]


def _row(kind: Callable[..., R], group_id: str, describe: Callable[[str, Context], R], ctx: Context) -> R:
    try:
        must(Operation.DESCRIBE, ResourceType.GROUP, group_id, ctx)
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        must_coordinate(group_id, ctx)
        return describe(group_id, ctx)
    except KafkaError as error:
        return _refused(kind, group_id, error)


def _refused(kind: Callable[..., R], group_id: str, error: KafkaError) -> R:
    return kind(group_id=group_id, error_code=int(error.code), error_message=error.message)


def _hidden(kind: Callable[..., R], row: R) -> R:
    return _refused(kind, row.group_id, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDES_TOPICS))
