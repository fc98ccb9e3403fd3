"""Fields of responses that faults set: given values, leaders of an earlier time, and lower versions."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import msgspec

from kwire import uuids
from kwire.errors import InvalidValue
from kwire.registry import API_KEYS, api_name
from kwire.schema.spec import INTEGER_RANGES
from mockbroker.faults.api_fields import ApiFields
from mockbroker.faults.fault_error import FaultError, suggest
from mockbroker.faults.responses.error_rows import RowCondition, partition_rows
from mockbroker.faults.responses.response_arrays import response_specs
from mockbroker.journal.leaf_fields import FieldPath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.schema import FieldSpec
    from mockbroker.engine.core import Core
    from mockbroker.engine.routes import Route
    from mockbroker.faults.model import FieldValue, Then

#: A response that lists the replicas of partitions has this field beside `leader_id` and `leader_epoch`.
_REPLICAS = "isr_nodes"
_BYTE_KINDS = frozenset({"bytes", "records"})
#: The types of Python, and the words, of the kinds of fields that are neither numbers nor bytes.
_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "bool": (bool, "a truth value"),
    "string": (str, "a text"),
    "float64": ((int, float), "a number"),
}
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
        _check_value(name, value, response_specs(fields.name)[name])
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


def check_field_values(then: Then) -> None:
    """Check that set_fields has only values that a field can have, before the fields are known. Raises: FaultError."""
    given: object = then.set_fields
    for name, value in given.items() if isinstance(given, dict) else ():
        if not isinstance(value, bool | int | str | None):
            raise FaultError(
                f"set_fields: {name}: {_kind(value)} cannot be set, only a number, a text, a truth value or null"
            )


def _check_value(name: str, value: FieldValue, spec: FieldSpec) -> None:
    """Check the value of a field by its type. Raises: FaultError for another, and for any bytes."""
    where, kind = f"set_fields: {name}", spec.element_type
    is_nullable = bool(spec.nullable_versions)
    if spec.is_array:
        raise FaultError(f"{where}: the field is an array; empty_arrays={name!r} empties it")
    if value is None:
        if not is_nullable:
            raise FaultError(f"{where}: null is given, and the field is null in no version")
    elif kind in _BYTE_KINDS:
        if value != "":
            null = " or to null" if is_nullable else ""
            raise FaultError(f'{where}: the field has bytes, which can only be set to ""{null}')
    elif kind in INTEGER_RANGES:
        low, high = INTEGER_RANGES[kind]
        if not isinstance(value, int) or isinstance(value, bool):
            raise FaultError(f"{where}: {_kind(value)} is given; the field has a whole number ({kind})")
        if not low <= value <= high:
            raise FaultError(f"{where}: {value} does not fit {kind}, {low} to {high}")
    elif kind == "uuid":
        _parse_uuid(where, value)
    elif not isinstance(value, _KINDS[kind][0]):
        raise FaultError(f"{where}: {_kind(value)} is given; the field has {_KINDS[kind][1]}")


def _parse_uuid(where: str, value: FieldValue) -> bytes:
    try:
        return uuids.from_text(str(value))
    except InvalidValue as error:
        raise FaultError(f"{where}: {value!r} is no UUID, which has 22 characters of base64url") from error


def _kind(value: object) -> str:
    """The kind of a value, for messages."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    names = {str: "a text", int: "a number", float: "a number with a fraction", dict: "an object"}
    return names.get(type(value), "an array" if isinstance(value, list | tuple) else f"a {type(value).__name__}")


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
        if isinstance(field_value, str) and path[0] in _byte_fields(cast(Any, type(value))):
            setattr(cast(Any, value), path[0], uuids.from_text(field_value) if field_value else b"")
        else:
            setattr(cast(Any, value), path[0], field_value)


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
