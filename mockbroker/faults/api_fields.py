"""What requests name and responses carry, by the fields of their generated classes, without code for single APIs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

import msgspec

from kwire.capture.kafka.message_fields import field_shape, struct_type_in
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.registry import API_KEYS, api_name, request_class, response_class
from mockbroker.journal.leaf_fields import FieldPath, leaf_fields, read_values

#: The fields that name a group, a member and a transactional id.
SELECTOR_FIELDS: Mapping[str, frozenset[str]] = {
    "group": frozenset({"group_id", "group_ids", "groups_names"}),
    "member": frozenset({"member_id"}),
    "transactional_id": frozenset({"transactional_id", "transactional_ids", "v3_and_below_transactional_id"}),
}
#: The keys of coordinators, by their type, whose requests name groups and transactional ids by them.
_COORDINATOR_API = "FindCoordinator"
_GROUP_KEY, _TRANSACTION_KEY, _SHARE_KEY = 0, 1, 2
#: A request with this field continues a session of the broker, which has partitions that the request does not name.
_SESSION_FIELD = "forgotten_topics_data"


class ApiFields(NamedTuple):
    """What the messages of an API have.

    fields, response_fields: of the request and of the response, by path, with their types. selectors: of "topic",
    "partition" and `SELECTOR_FIELDS`, those that the request names. has_response_partitions: only the response names
    partitions, those of the request's topics. error_places: where the response has error codes,
    of "top", "topic", "partition" and "row", which is one of another kind.
    """

    name: str
    fields: Mapping[FieldPath, object]
    response_fields: Mapping[FieldPath, object]
    selectors: frozenset[str]
    error_places: frozenset[str]
    has_throttle_time: bool
    record_paths: tuple[FieldPath, ...]
    has_session: bool
    has_response_partitions: bool


@cache
def api_fields(name: str) -> ApiFields:
    """The fields of an API of the default edition. name: of an API that exists."""
    key = next(key for key in API_KEYS if api_name(key) == name)
    request, response = request_class(key), response_class(key)
    paths, response_paths = dict(leaf_fields(request)), dict(leaf_fields(response))
    selectors = {
        selector for selector, names in SELECTOR_FIELDS.items() if any(_is_selector(path, names) for path in paths)
    }
    if _row_levels(request):
        selectors.add("topic")
    if name == _COORDINATOR_API:
        selectors |= {"group", "transactional_id"}
    top = {"top"} if "error_code" in response.__struct_fields__ else set()
    error_places = top | _error_levels(response)
    has_partitions = "partition" in _row_levels(request)
    has_response_partitions = "topic" in selectors and "partition" in error_places and not has_partitions
    if has_partitions or has_response_partitions:
        selectors.add("partition")
    return ApiFields(
        name=name,
        fields=paths,
        response_fields=response_paths,
        selectors=frozenset(selectors),
        error_places=frozenset(error_places),
        has_throttle_time="throttle_time_ms" in response.__struct_fields__,
        record_paths=tuple(path for path in response_paths if path[-1] == "records"),
        has_session=_SESSION_FIELD in request.__struct_fields__,
        has_response_partitions=has_response_partitions,
    )


def selector_values(request: msgspec.Struct, selector: str) -> list[object]:
    """The groups, members or transactional ids that a request names."""
    if isinstance(request, FindCoordinatorRequest):
        return list(_coordinator_keys(request, selector))
    return [value for path in _selector_paths(type(request), selector) for value in read_values(request, path)]


def _coordinator_keys(request: FindCoordinatorRequest, selector: str) -> Iterator[str]:
    """The groups or transactional ids whose coordinators a request looks up; that of a share-partition is its group's.

    Source: KIP-932, "FindCoordinator": the key of a share-partition is "group:topicId:partition".
    """
    kinds = {"group": (_GROUP_KEY, _SHARE_KEY), "transactional_id": (_TRANSACTION_KEY,)}.get(selector, ())
    if request.key_type in kinds:
        for key in request.coordinator_keys or [request.key]:
            yield key.rsplit(":", 2)[0] if request.key_type == _SHARE_KEY else key


@cache
def _selector_paths(cls: type[msgspec.Struct], selector: str) -> tuple[FieldPath, ...]:
    return tuple(path for path, _ in leaf_fields(cls) if _is_selector(path, SELECTOR_FIELDS[selector]))


def _is_selector(path: FieldPath, names: frozenset[str]) -> bool:
    # DescribeGroups has an array of texts with the name "groups".
    return path[-1] in names or (path == ("groups",) and "group_id" in names)


@cache
def _row_levels(cls: type[msgspec.Struct]) -> frozenset[str]:
    """Whether a class has rows of topics, and of partitions below them."""
    shape = field_shape(cls)
    levels = {"topic"} if shape.names else set()
    for child in (_child(cls, name) for name in shape.topic_children):
        child_shape = field_shape(child)
        if child_shape.is_topic:
            levels.add("topic")
            has_rows = any(field_shape(_child(child, name)).number for name in child_shape.children)
            if child_shape.numbers or child_shape.number or has_rows:
                levels.add("partition")
        levels |= _row_levels(child)
    return frozenset(levels)


@cache
def _error_levels(cls: type[msgspec.Struct]) -> set[str]:
    """The levels of rows of a response that have an error code; "row" is one of neither topic nor partition."""
    levels: set[str] = set()
    for child in (_child(cls, name) for name in field_shape(cls).children):
        shape = field_shape(child)
        if shape.errors:
            levels.add("partition" if shape.number is not None else "topic" if shape.is_topic else "row")
        levels |= _error_levels(child)
    return levels


def _child(cls: type[msgspec.Struct], name: str) -> type[msgspec.Struct]:
    child = next(struct_type_in(field.type) for field in msgspec.structs.fields(cls) if field.name == name)
    assert child is not None
    return child
