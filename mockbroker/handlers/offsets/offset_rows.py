"""Response rows of requests that are answered in two parts: rejected partitions, and those the coordinator answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol, TypeVar


class TopicRow(Protocol):
    """A row with the partitions of one topic."""

    partitions: Any  # A list of the API's own partition rows.


R = TypeVar("R", bound=TopicRow)


def merge_rows(rejected: Iterable[R], answered: list[R], key: Callable[[R], Hashable]) -> list[R]:
    """The rejected rows followed by the coordinator's, one for each topic; alone, the coordinator's stay as they are.

    key: the name or id of a row's topic. Source: Kafka's OffsetCommitResponse.Builder, and the conversation
    other-offset-row-order.
    """
    merged: dict[Hashable, R] = {}
    for row in rejected:
        _add_row(merged, row, key)
    if not merged:
        return answered
    for row in answered:
        _add_row(merged, row, key)
    return list(merged.values())


def _add_row(merged: dict[Hashable, R], row: R, key: Callable[[R], Hashable]) -> None:
    present = merged.setdefault(key(row), row)
    if present is not row:
        present.partitions += row.partitions
