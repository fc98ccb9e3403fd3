"""Fields of responses that faults set: given values, leaders of an earlier time, and lower versions."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import msgspec

from kwire.registry import API_KEYS, api_name
from mockbroker.faults.api_fields import ApiFields
from mockbroker.faults.error_rows import RowCondition, partition_rows
from mockbroker.faults.fault_error import FaultError, suggest
from mockbroker.journal.leaf_fields import FieldPath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mockbroker.engine.core import Core
    from mockbroker.engine.routes import Route
    from mockbroker.faults.model import FieldValue, Then

#: A response that lists the replicas of partitions has this field beside `leader_id` and `leader_epoch`.
_REPLICAS = "isr_nodes"
#: A tag that no message has, with content that is not read as anything else. Source: KIP-482, "Tagged Fields".
_UNKNOWN_TAG = (10_017, b"unknown")


class PartitionLeader(NamedTuple):
    """The leader and the in-sync replicas of a partition at some time."""

    leader_id: int
    leader_epoch: int
    isr_nodes: tuple[int, ...]


def check_response_fields(then: Then, fields: ApiFields) -> None:
    """Check the fields that a fault sets. Raises: FaultError for one that the API's response lacks."""
    for name, value in (then.set_fields or {}).items():
        kind = fields.response_fields.get(tuple(name.split(".")))
        if kind is None:
            known = [".".join(path) for path in fields.response_fields]
            raise FaultError(f"set_fields: a {fields.name} response has no field {name!r}; {suggest(name, known)}")
        _check_value(name, value, kind)
    if then.stale and not any(path[-1] == _REPLICAS for path in fields.response_fields):
        raise FaultError(f"stale: a {fields.name} response has no leaders; Metadata and DescribeTopicPartitions have")
    if then.max_versions is not None and fields.name != "ApiVersions":
        raise FaultError("max_versions: only an ApiVersions response lists versions; name that API")
    names = {api_name(key) for key in API_KEYS}
    for name, version in (then.max_versions or {}).items():
        if name not in names:
            raise FaultError(f"max_versions: {name!r} is not the name of an API; {suggest(name, names)}")
        if version < -1:
            raise FaultError(f"max_versions: {name}: {version} is no version; -1 leaves the API out")


def _check_value(name: str, value: FieldValue, kind: Any) -> None:
    """Check the value of a field by its type. Raises: FaultError for another, and for any bytes."""
    types = get_args(kind)
    if bytes in types or kind is bytes:
        if value != "" and (value is not None or type(None) not in types):
            null = " or to null" if type(None) in types else ""
            raise FaultError(f'set_fields: {name}: the field has bytes, which can only be set to ""{null}')
        return
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise FaultError(f"set_fields: {name}: {error}") from error


def set_response_fields(response: object, values: Mapping[str, FieldValue], condition: RowCondition) -> None:
    """Set fields of a response by their paths; in the rows of topics, only those that are included."""
    for name, value in values.items():
        _set_field(response, tuple(name.split(".")), value, condition)


def _set_field(value: object, path: FieldPath, field_value: FieldValue, condition: RowCondition) -> None:
    if isinstance(value, list):
        for item in value:
            if condition.includes_row(item):
                _set_field(item, path, field_value, condition)
    elif value is not None and len(path) > 1:
        _set_field(getattr(value, path[0]), path[1:], field_value, condition)
    elif value is not None:
        is_bytes = field_value == "" and path[0] in _byte_fields(cast(Any, type(value)))
        setattr(cast(Any, value), path[0], b"" if is_bytes else field_value)


@cache
def _byte_fields(cls: type[msgspec.Struct]) -> frozenset[str]:
    """The fields of a class that have bytes."""
    fields = msgspec.structs.fields(cls)
    return frozenset(field.name for field in fields if field.type is bytes or bytes in get_args(field.type))


def read_leaders(core: Core) -> dict[tuple[str, int], PartitionLeader]:
    """The present leaders of all partitions, by topic and index."""
    return {
        (topic.name, partition.index): PartitionLeader(partition.leader, partition.leader_epoch, tuple(partition.isr))
        for topic in core.state.metadata.topics()
        for partition in topic.partitions
    }


def set_leaders(
    response: msgspec.Struct, leaders: Mapping[tuple[str, int], PartitionLeader], condition: RowCondition
) -> None:
    """Set the leaders in the rows of partitions to earlier ones."""
    names = {name for name, _ in leaders}
    for name in names:
        if condition.topic not in (None, name):
            continue
        for row in partition_rows(response, RowCondition(name, None, condition.partition)):
            fields = cast(Any, row)
            leader = leaders.get((name, fields.partition_index))
            if leader is not None:
                fields.leader_id, fields.leader_epoch, fields.isr_nodes = leader


def list_routes(response: msgspec.Struct, routes: Mapping[int, Route]) -> None:
    """Let an ApiVersions response list these APIs and versions, of those that it lists."""
    fields = cast(Any, response)
    fields.api_keys = [row for row in fields.api_keys if row.api_key in routes]
    for row in fields.api_keys:
        row.min_version, row.max_version = routes[row.api_key].listed


def add_unknown_tags(value: object) -> None:
    """Give a response and its structures a tagged field of an unknown tag; versions without tags do not carry it."""
    if isinstance(value, list):
        for item in value:
            add_unknown_tags(item)
    elif isinstance(value, msgspec.Struct) and value != type(value)():  # A default may be absent in this version.
        for name in value.__struct_fields__:
            if name == "unknown_tagged_fields":
                cast(Any, value).unknown_tagged_fields = (_UNKNOWN_TAG,)
            else:
                add_unknown_tags(getattr(value, name))
