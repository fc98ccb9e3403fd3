"""Events that concern many share partitions: topic names, delivery-count limits, deletions, leaders, log starts."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kwire.capture.share_timeline.events import Event, EventKind, MessageRow

Tree = dict[str, Any]

_GROUP, _BROKER = 32, 4
_LIMIT = "share.delivery.count.limit"
_SET, _DELETE = 0, 1
_EVENT_KINDS = {"limit": EventKind.LIMIT, "log_start": EventKind.LOG_START, "leader": EventKind.LEADER_CHANGE}
_TOPIC_NAMING_APIS = ("CreateTopics", "AlterShareGroupOffsets", "DescribeShareGroupOffsets", "ShareGroupDescribe")


class ContextEvent(NamedTuple):
    """An event that concerns many share partitions; fields that do not apply are None.

    kind: name, limit, delete_group, delete_offsets, delete_topic, log_start or leader. ts: nanoseconds, 0 for names.
    value: a limit, an offset, or the id of the leader since `epoch`.
    """

    kind: str
    ts: int
    group_id: str | None = None
    topic_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    value: int | None = None
    epoch: int | None = None


class ContextEventSet:
    """Context events without duplicates; a leader has the time of its first message."""

    def __init__(self) -> None:
        self._first_ts: dict[ContextEvent, int] = {}

    def add(self, event: ContextEvent) -> None:
        """Add an event."""
        key = event._replace(ts=0) if event.kind == "leader" else event
        self._first_ts[key] = min(event.ts, self._first_ts.get(key, event.ts))

    def __iter__(self) -> Iterator[ContextEvent]:
        return (event._replace(ts=ts) for event, ts in self._first_ts.items())


def read_context_events(row: MessageRow) -> Iterator[ContextEvent]:
    """The context events in a row of the level `messages`; none in rows without a response."""
    read = _READERS.get(row["api_name"])
    if read is None or row["body_request"] is None or row["body_response"] is None:
        return
    request, response = json.loads(row["body_request"]), json.loads(row["body_response"])
    if not response.get("errorCode"):
        yield from read(request, response, row["resp_ts"] or 0)


def _read_topic_names(_: Tree, response: Tree, ts: int) -> Iterator[ContextEvent]:
    """Every topic with id and name, without a time, since names do not change."""
    pending: list[Any] = [response]
    while pending:
        tree = pending.pop()
        if isinstance(tree, list):
            pending += tree
        elif isinstance(tree, dict):
            name = tree.get("topicName") or tree.get("name")
            if tree.get("topicId") and isinstance(name, str):
                yield ContextEvent("name", 0, topic_id=tree["topicId"], topic=name)
            pending += [value for value in tree.values() if isinstance(value, list | dict)]


def _read_metadata(request: Tree, response: Tree, ts: int) -> Iterator[ContextEvent]:
    """Topic names, and the leaders of partitions."""
    yield from _read_topic_names(request, response, ts)
    for topic in response.get("topics") or ():
        for row in topic.get("partitions") or () if topic.get("topicId") else ():
            if row.get("leaderEpoch", -1) >= 0:
                partition = {"topic_id": topic["topicId"], "partition": row["partitionIndex"]}
                yield ContextEvent("leader", ts, value=row["leaderId"], epoch=row["leaderEpoch"], **partition)


def _read_deleted_offsets(request: Tree, response: Tree, ts: int) -> Iterator[ContextEvent]:
    for topic in response.get("responses") or ():
        yield ContextEvent("name", 0, topic_id=topic["topicId"], topic=topic["topicName"])
        if not topic["errorCode"]:
            yield ContextEvent("delete_offsets", ts, request["groupId"], topic["topicId"])


def _read_deleted_groups(_: Tree, response: Tree, ts: int) -> Iterator[ContextEvent]:
    for row in response.get("results") or ():
        if not row["errorCode"]:
            yield ContextEvent("delete_group", ts, row["groupId"])


def _read_deleted_topics(_: Tree, response: Tree, ts: int) -> Iterator[ContextEvent]:
    for topic in response.get("responses") or ():
        if not topic["errorCode"] and topic.get("topicId"):
            yield ContextEvent("delete_topic", ts, topic_id=topic["topicId"])


def _read_deleted_records(_: Tree, response: Tree, ts: int) -> Iterator[ContextEvent]:
    for topic in response.get("topics") or ():
        for row in topic["partitions"] or ():
            if not row["errorCode"]:
                partition = {"topic": topic["name"], "partition": row["partitionIndex"]}
                yield ContextEvent("log_start", ts, value=row["lowWatermark"], **partition)


def _read_altered_configs(request: Tree, response: Tree, ts: int) -> Iterator[ContextEvent]:
    groups = (row for row in response.get("responses") or () if row["resourceType"] == _GROUP)
    succeeded_groups = {row["resourceName"] for row in groups if not row["errorCode"]}
    for resource in () if request.get("validateOnly") else request.get("resources") or ():
        if resource["resourceType"] != _GROUP or resource["resourceName"] not in succeeded_groups:
            continue
        for config in resource["configs"]:
            operation = config.get("configOperation", _SET)
            if config["name"] == _LIMIT and operation in (_SET, _DELETE):
                value = _parse_number(config["value"]) if operation == _SET else None
                yield ContextEvent("limit", ts, resource["resourceName"], value=value)


def _read_described_configs(_: Tree, response: Tree, ts: int) -> Iterator[ContextEvent]:
    for result in response.get("results") or ():
        group = result["resourceName"] if result["resourceType"] == _GROUP else None
        config_name = {_GROUP: _LIMIT, _BROKER: f"group.{_LIMIT}"}.get(result["resourceType"])
        for config in result.get("configs") or ():
            value = _parse_number(config["value"])
            if config["name"] == config_name and value is not None:
                yield ContextEvent("limit", ts, group, value=value)


_READERS: dict[object, Any] = {
    **dict.fromkeys(_TOPIC_NAMING_APIS, _read_topic_names),
    "Metadata": _read_metadata,
    "DeleteShareGroupOffsets": _read_deleted_offsets,
    "DeleteGroups": _read_deleted_groups,
    "DeleteTopics": _read_deleted_topics,
    "DeleteRecords": _read_deleted_records,
    "IncrementalAlterConfigs": _read_altered_configs,
    "AlterConfigs": _read_altered_configs,
    "DescribeConfigs": _read_described_configs,
}
#: The APIs whose rows contain context events.
APIS = tuple(str(name) for name in _READERS)


class EventContext:
    """All context events of some captures, by the share partitions that they concern."""

    def __init__(self, events: Iterable[ContextEvent]) -> None:
        self.names: dict[str, str] = {}
        self._global_events: list[ContextEvent] = []
        self._group_events: dict[str, list[ContextEvent]] = defaultdict(list)
        self._log_events: dict[tuple[str | None, int | None], list[ContextEvent]] = defaultdict(list)
        self._topic_events: dict[str | None, list[ContextEvent]] = defaultdict(list)
        self._leader_events: dict[tuple[str | None, int | None], list[ContextEvent]] = defaultdict(list)
        for event in events:
            if event.kind == "name":
                self.names[event.topic_id or ""] = event.topic or ""
            elif event.kind == "leader":
                self._leader_events[event.topic_id, event.partition].append(event)
            elif event.kind == "delete_topic":
                self._topic_events[event.topic_id].append(event)
            elif event.kind == "log_start":
                self._log_events[event.topic, event.partition].append(event)
            elif event.group_id is None:
                self._global_events.append(event)
            else:
                self._group_events[event.group_id].append(event)

    def events_of_partition(self, group_id: str, topic_id: str | None, partition: int | None) -> list[Event]:
        """The events of one share partition."""
        logs = self._log_events.get((self.names.get(topic_id or ""), partition), [])
        topics = self._topic_events.get(topic_id, [])
        leaders = self._leader_events.get((topic_id, partition), [])
        group_events = [each for each in self._group_events.get(group_id, []) if each.topic_id in (None, topic_id)]
        context_events = [*self._global_events, *group_events, *logs, *topics, *leaders]
        return [_partition_event(event, group_id, topic_id, partition) for event in context_events]


def _partition_event(event: ContextEvent, group_id: str, topic_id: str | None, partition: int | None) -> Event:
    kind = _EVENT_KINDS.get(event.kind)
    if kind is None:
        return Event(event.ts, EventKind.RESET, group_id, topic_id, partition, note=event.kind)
    return Event(event.ts, kind, group_id, topic_id, partition, start=event.value, complete=event.epoch)


def _parse_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None
