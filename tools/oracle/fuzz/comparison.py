"""Differences of two responses: rows are matched by what identifies them, and each difference has a class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Json = Any

#: Fields that identify a row in an array, where it has them.
_ROW_KEYS = (
    *("topicId", "name", "topicName", "topic", "partition", "partitionIndex", "index", "groupId", "memberId"),
    *("transactionalId", "apiKey", "resourceType", "resourceName", "errorCode", "key", "producerId"),
)
_MISSING = "(missing)"
_OFFSETS_TOPIC = "__consumer_offsets"
#: What stands for the response to a request that is not answered in time.
UNANSWERED = {"unanswered": True}
#: Greater numbers near each other are times: later than the times that scripts send, and not offsets.
_EARLIEST_NOW_MS, _PLAY_MS_MAX = 1_750_000_000_000, 600_000


class LeafDifference(NamedTuple):
    """A value that differs: the path to it with * for rows, and both values."""

    path: str
    kafka: Json
    ours: Json


class DifferenceClass(NamedTuple):
    """What differences have in common: API, path and the kinds of the values."""

    api: str
    path: str
    kafka: str
    ours: str

    def __str__(self) -> str:
        return f"{self.api} {self.path or '/'}: {self.kafka} in Kafka, {self.ours} here"


class StepDifference(NamedTuple):
    """A step whose responses differ; `step` is its index in the script."""

    step: int
    api: str
    version: int
    leaves: tuple[LeafDifference, ...]

    @property
    def classes(self) -> tuple[DifferenceClass, ...]:
        """The classes of its values, error codes first, without doubles."""
        ordered = sorted(self.leaves, key=lambda leaf: not leaf.path.lower().endswith("errorcode"))
        classes = [
            DifferenceClass(
                self.api, leaf.path, describe_value(leaf.path, leaf.kafka), describe_value(leaf.path, leaf.ours)
            )
            for leaf in ordered
        ]
        return tuple(dict.fromkeys(classes))


def compare_answers(
    steps: Sequence[Mapping[str, Json]], kafka: Mapping[int, Json], ours: Mapping[int, Json]
) -> list[StepDifference]:
    """The steps whose responses differ, in order; the play ends with a request that one broker does not answer."""
    differences = []
    for index in sorted(kafka.keys() | ours.keys()):
        answers = tuple(_without_group_partitions(played.get(index, _MISSING)) for played in (kafka, ours))
        leaves = tuple(_unanswered_leaf(*answers) if UNANSWERED in answers else leaf_differences(*answers))
        if leaves:
            api, version = request_of(steps, index)
            differences.append(StepDifference(index, api, version, leaves))
        if UNANSWERED in (kafka.get(index), ours.get(index)):
            break
    return differences


def _without_group_partitions(response: Json) -> Json:
    """A response of DescribeTransactions without the partitions that hold the offsets of groups.

    They are hashes of the groups' names, which contain a different random part on each broker.
    """
    if not isinstance(response, dict) or "transactionStates" not in response:
        return response
    states = [
        {**state, "topics": [{**row, "partitions": "*"} if row.get("topic") == _OFFSETS_TOPIC else row for row in rows]}
        if (rows := state.get("topics"))
        else state
        for state in response["transactionStates"]
    ]
    return {**response, "transactionStates": states}


def _unanswered_leaf(kafka: Json, ours: Json) -> list[LeafDifference]:
    """The difference of two responses of which one or both are missing."""
    if kafka == ours:
        return []
    return [LeafDifference("/unanswered", kafka == UNANSWERED, ours == UNANSWERED)]


def request_of(steps: Sequence[Mapping[str, Json]], index: int) -> tuple[str, int]:
    """API and version of the request that a step answers."""
    step = steps[index]
    if "await" in step:
        before = (other for other in reversed(steps[:index]) if other.get("async") and other["conn"] == step["await"])
        step = next(before, step)
    if "produce" in step:
        return "Produce", step["produce"].get("version", 11)
    return step.get("api", "unknown"), step.get("version", 0)


def leaf_differences(kafka: Json, ours: Json, path: str = "") -> Iterator[LeafDifference]:
    """All values that differ."""
    if isinstance(kafka, int) and isinstance(ours, int) and _are_times(kafka, ours):
        return
    if kafka == ours and repr(kafka) == repr(ours):  # A boolean equals a number, but has another text.
        return
    if isinstance(kafka, dict) and isinstance(ours, dict):
        for key in sorted(kafka.keys() | ours.keys()):
            yield from leaf_differences(kafka.get(key, _MISSING), ours.get(key, _MISSING), f"{path}/{key}")
    elif isinstance(kafka, list) and isinstance(ours, list):
        for kafka_row, our_row in _match_rows(kafka, ours):
            yield from leaf_differences(kafka_row, our_row, f"{path}/*")
    else:
        yield LeafDifference(path, kafka, ours)


def _are_times(kafka: int, ours: int) -> bool:
    """Whether these are two times of the same play, which both brokers took from their clocks."""
    return min(kafka, ours) > _EARLIEST_NOW_MS and abs(kafka - ours) < _PLAY_MS_MAX


def _match_rows(kafka: list[Json], ours: list[Json]) -> list[tuple[Json, Json]]:
    """Rows with the same keys, else in their order; a row without a counterpart is paired with a missing one."""
    pairs: list[tuple[Json, Json]] = []
    kafka_left, ours_left = list(kafka), list(ours)
    for row_key in (_exact_key, _row_key, _position_key):
        for row in list(kafka_left):
            counterpart = next((other for other in ours_left if row_key(other) == row_key(row)), _MISSING)
            if counterpart != _MISSING and _is_pair(row, counterpart):
                pairs.append((row, counterpart))
                kafka_left.remove(row)
                ours_left.remove(counterpart)
    return [*pairs, *((row, _MISSING) for row in kafka_left), *((_MISSING, row) for row in ours_left)]


def _is_pair(row: Json, other: Json) -> bool:
    return isinstance(row, dict) == isinstance(other, dict)


def _exact_key(row: Json) -> Json:
    return repr(row)


def _row_key(row: Json) -> Json:
    if not isinstance(row, dict):
        return repr(row)
    return tuple(row.get(name) for name in _ROW_KEYS if name != "errorCode")


def _position_key(row: Json) -> Json:
    """Rows of the same kind, when only one row of each broker is left."""
    return "row" if isinstance(row, dict) and not any(name in row for name in _ROW_KEYS[:10]) else repr(row)


def describe_value(path: str, value: Json) -> str:
    """The kind of a value; error codes, small numbers and booleans as they are."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        is_code = path.lower().endswith(("errorcode", "type", "state"))
        return str(value) if is_code or value in (-2, -1, 0) else "number"
    if isinstance(value, str):
        is_word = path.endswith(("State", "Type", "/protocolData", "Policy")) or value.startswith(("<", "("))
        return value if is_word else ("text" if value else '""')
    if isinstance(value, list):
        return "rows" if value else "[]"
    if isinstance(value, dict):
        code = next((value[name] for name in value if name.lower() == "errorcode"), None)
        return "row" if code in (None, 0) else f"row with error {code}"
    return str(value)
