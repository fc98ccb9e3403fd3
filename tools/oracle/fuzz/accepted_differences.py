"""Differences that are accepted, each with its reason; docs/differences.md has them in words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from tools.oracle.fuzz.comparison import LeafDifference, StepDifference

Json = Any


class AcceptedDifference(NamedTuple):
    """Values of an API that may differ: patterns of the API and of the path, and the subject in docs/differences.md.

    error_code: one of the values is this code, or a row with it, or the row of a topic with only such rows.
    """

    api: str
    path: str
    reason: str
    error_code: int | None = None

    def matches(self, api: str, leaf: LeafDifference) -> bool:
        """Whether the difference is of this kind."""
        if re.fullmatch(self.api, api) is None or re.fullmatch(self.path, leaf.path) is None:
            return False
        return self.error_code is None or any(_has_code(value, self.error_code) for value in (leaf.kafka, leaf.ours))


def _has_code(value: Json, code: int) -> bool:
    if isinstance(value, dict):
        rows = value.get("partitions")
        return all(_has_code(row, code) for row in rows) if rows else value.get("errorCode") == code
    return bool(value == code)


ACCEPTED = (
    AcceptedDifference("DescribeConfigs", r".*/documentation", "texts of this project, not Kafka's"),
    AcceptedDifference("Fetch", "/unanswered", "Fetch of the zero topic id before others, if it waits"),
    AcceptedDifference("Produce", "/unanswered", "Produce with records that are null"),
    AcceptedDifference(
        "WriteTxnMarkers", "/unanswered", "WriteTxnMarkers with a partition listed twice, or an empty marker"
    ),
    AcceptedDifference(
        "ShareFetch",
        r"/responses/\*(/partitions/\*(/errorCode)?)?",
        "Share partitions whose state cannot be read",
        error_code=-1,
    ),
    AcceptedDifference(
        "Share(Fetch|GroupHeartbeat|GroupDescribe)", r".*/(assignment|topicPartitions)(/.*)?", "Assignment"
    ),
)


def without_accepted(
    differences: Iterable[StepDifference], accepted: Iterable[AcceptedDifference] = ACCEPTED
) -> list[StepDifference]:
    """The differences without accepted values; a step without others agrees."""
    accepted, remaining = tuple(accepted), []
    for step in differences:
        leaves = tuple(leaf for leaf in step.leaves if not any(rule.matches(step.api, leaf) for rule in accepted))
        if leaves:
            remaining.append(step._replace(leaves=leaves))
    return remaining
