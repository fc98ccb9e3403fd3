"""Rows of the describe APIs of all group types: one for each group, with or without an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.engine.context import Context
from mockbroker.handlers.groups.find_coordinator import require_coordinator
from mockbroker.handlers.groups.group_access import HIDES_TOPICS, hides_topics
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, authorized_operations
from mockbroker.kafka_error import KafkaError


class _Row(Protocol):
    group_id: str
    error_code: int
    authorized_operations: int


R = TypeVar("R", bound=_Row)


class _Request(Protocol):
    group_ids: tuple[str, ...]
    include_authorized_operations: bool


def describe_groups(
    kind: Callable[..., R],
    request: _Request,
    describe: Callable[[str, Context], R],
    topics_of: Callable[[R], Iterable[str]],
    ctx: Context,
    *,
    has_coordinator_text: bool = False,
) -> list[R]:
    """The rows of the requested groups, in the order of the request.

    kind: the class of a row. describe: builds the row of a group that may be described and is coordinated here, or
    raises KafkaError. topics_of: the topics in a row, all of which the client must be allowed to describe.
    has_coordinator_text: whether the row of a group that is coordinated elsewhere has a message.
    """
    rows = []
    for group_id in request.group_ids:
        rows.append(_describe_group(kind, group_id, describe, ctx, has_coordinator_text=has_coordinator_text))
    if request.include_authorized_operations:
        for row in rows:
            if row.error_code == ErrorCode.NONE:
                row.authorized_operations = authorized_operations(ResourceType.GROUP, row.group_id, ctx)
    hidden = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDES_TOPICS)
    return [_error_row(kind, row.group_id, hidden) if hides_topics(topics_of(row), ctx) else row for row in rows]


def error_rows(kind: Callable[..., R], group_ids: Sequence[str], error: KafkaError) -> list[R]:
    """One row with the error for each requested group."""
    return [_error_row(kind, group_id, error) for group_id in group_ids]


def _describe_group(
    kind: Callable[..., R],
    group_id: str,
    describe: Callable[[str, Context], R],
    ctx: Context,
    *,
    has_coordinator_text: bool,
) -> R:
    try:
        authorize(AclOperation.DESCRIBE, ResourceType.GROUP, group_id, ctx)
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        require_coordinator(group_id, ctx, has_text=has_coordinator_text)
        return describe(group_id, ctx)
    except KafkaError as error:
        return _error_row(kind, group_id, error)


def _error_row(kind: Callable[..., R], group_id: str, error: KafkaError) -> R:
    return kind(group_id=group_id, error_code=int(error.code), error_message=error.message)
