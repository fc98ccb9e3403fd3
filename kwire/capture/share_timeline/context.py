"""What holds for many share partitions at once: names of topics, delivery-count limits, groups and offsets deleted."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kwire.capture.share_timeline.events import Event, Kind, Told

Tree = dict[str, Any]

_GROUP, _BROKER = 32, 4
_LIMIT = "share.delivery.count.limit"
_SET, _DELETE = 0, 1
_NAMING = ("CreateTopics", "AlterShareGroupOffsets", "DescribeShareGroupOffsets", "ShareGroupDescribe")


class Fact(NamedTuple):
    """What it does not speak of is null. `what` is name, limit, delete_group, delete_offsets, delete_topic,
    log_start or leader.

    ts: nanoseconds; of names 0. value: a limit, an offset, or who leads since `epoch`.
    """

    what: str
    ts: int
    group_id: str | None = None
    topic_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    value: int | None = None
    epoch: int | None = None


class Facts:
    """Facts, each once: of a leader counts when it was told first."""

    def __init__(self) -> None:
        self._first: dict[Fact, int] = {}

    def add(self, fact: Fact) -> None:
        """Keep a fact."""
        key = fact._replace(ts=0) if fact.what == "leader" else fact
        self._first[key] = min(fact.ts, self._first.get(key, fact.ts))

    def __iter__(self) -> Iterator[Fact]:
        return (fact._replace(ts=ts) for fact, ts in self._first.items())


def facts(row: Told) -> Iterator[Fact]:
    """What a row of the level `messages` tells; rows without an answer tell nothing."""
    read = _READERS.get(row["api_name"])
    if read is None or row["body_request"] is None or row["body_response"] is None:
        return
    asked, answered = json.loads(row["body_request"]), json.loads(row["body_response"])
    if not answered.get("errorCode"):
        yield from read(asked, answered, row["resp_ts"] or 0)


def _names(_: Tree, answered: Tree, ts: int) -> Iterator[Fact]:
    """Every topic that is told with both id and name, without the time: names do not change."""
    waiting: list[Any] = [answered]
    while waiting:
        tree = waiting.pop()
        if isinstance(tree, list):
            waiting += tree
        elif isinstance(tree, dict):
            name = tree.get("topicName") or tree.get("name")
            if tree.get("topicId") and isinstance(name, str):
                yield Fact("name", 0, topic_id=tree["topicId"], topic=name)
            waiting += [value for value in tree.values() if isinstance(value, list | dict)]


def _metadata(asked: Tree, answered: Tree, ts: int) -> Iterator[Fact]:
    """Names, and who leads the partitions."""
    yield from _names(asked, answered, ts)
    for topic in answered.get("topics") or ():
        for row in topic.get("partitions") or () if topic.get("topicId") else ():
            if row.get("leaderEpoch", -1) >= 0:
                place = {"topic_id": topic["topicId"], "partition": row["partitionIndex"]}
                yield Fact("leader", ts, value=row["leaderId"], epoch=row["leaderEpoch"], **place)


def _deleted_offsets(asked: Tree, answered: Tree, ts: int) -> Iterator[Fact]:
    for topic in answered.get("responses") or ():
        yield Fact("name", 0, topic_id=topic["topicId"], topic=topic["topicName"])
        if not topic["errorCode"]:
            yield Fact("delete_offsets", ts, asked["groupId"], topic["topicId"])


def _deleted_groups(_: Tree, answered: Tree, ts: int) -> Iterator[Fact]:
    for row in answered.get("results") or ():
        if not row["errorCode"]:
            yield Fact("delete_group", ts, row["groupId"])


def _deleted_topics(_: Tree, answered: Tree, ts: int) -> Iterator[Fact]:
    for topic in answered.get("responses") or ():
        if not topic["errorCode"] and topic.get("topicId"):
            yield Fact("delete_topic", ts, topic_id=topic["topicId"])


def _deleted_records(_: Tree, answered: Tree, ts: int) -> Iterator[Fact]:
    for topic in answered.get("topics") or ():
        for row in topic["partitions"] or ():
            if not row["errorCode"]:
                where = {"topic": topic["name"], "partition": row["partitionIndex"]}
                yield Fact("log_start", ts, value=row["lowWatermark"], **where)


def _altered(asked: Tree, answered: Tree, ts: int) -> Iterator[Fact]:
    good = {
        row["resourceName"]
        for row in answered.get("responses") or ()
        if row["resourceType"] == _GROUP and not row["errorCode"]
    }
    for resource in () if asked.get("validateOnly") else asked.get("resources") or ():
        if resource["resourceType"] != _GROUP or resource["resourceName"] not in good:
            continue
        for config in resource["configs"]:
            operation = config.get("configOperation", _SET)
            if config["name"] == _LIMIT and operation in (_SET, _DELETE):
                value = _number(config["value"]) if operation == _SET else None
                yield Fact("limit", ts, resource["resourceName"], value=value)


def _described(_: Tree, answered: Tree, ts: int) -> Iterator[Fact]:
    for result in answered.get("results") or ():
        group = result["resourceName"] if result["resourceType"] == _GROUP else None
        wanted = {_GROUP: _LIMIT, _BROKER: f"group.{_LIMIT}"}.get(result["resourceType"])
        for config in result.get("configs") or ():
            value = _number(config["value"])
            if config["name"] == wanted and value is not None:
                yield Fact("limit", ts, group, value=value)


_READERS: dict[object, Any] = {
    **dict.fromkeys(_NAMING, _names),
    "Metadata": _metadata,
    "DeleteShareGroupOffsets": _deleted_offsets,
    "DeleteGroups": _deleted_groups,
    "DeleteTopics": _deleted_topics,
    "DeleteRecords": _deleted_records,
    "IncrementalAlterConfigs": _altered,
    "AlterConfigs": _altered,
    "DescribeConfigs": _described,
}
#: The APIs whose rows tell facts.
APIS = tuple(str(name) for name in _READERS)


class Context:
    """All facts of some captures."""

    def __init__(self, found: Iterable[Fact]) -> None:
        self.names: dict[str, str] = {}
        self._of_all: list[Fact] = []
        self._of_groups: dict[str, list[Fact]] = defaultdict(list)
        self._of_logs: dict[tuple[str | None, int | None], list[Fact]] = defaultdict(list)
        self._of_topics: dict[str | None, list[Fact]] = defaultdict(list)
        self._of_leaders: dict[tuple[str | None, int | None], list[Fact]] = defaultdict(list)
        for fact in found:
            if fact.what == "name":
                self.names[fact.topic_id or ""] = fact.topic or ""
            elif fact.what == "leader":
                self._of_leaders[fact.topic_id, fact.partition].append(fact)
            elif fact.what == "delete_topic":
                self._of_topics[fact.topic_id].append(fact)
            elif fact.what == "log_start":
                self._of_logs[fact.topic, fact.partition].append(fact)
            elif fact.group_id is None:
                self._of_all.append(fact)
            else:
                self._of_groups[fact.group_id].append(fact)

    def events(self, group_id: str, topic_id: str | None, partition: int | None) -> list[Event]:
        """What they mean for one share partition."""
        logs = self._of_logs.get((self.names.get(topic_id or ""), partition), [])
        topics = self._of_topics.get(topic_id, [])
        leaders = self._of_leaders.get((topic_id, partition), [])
        mine = [
            fact for fact in self._of_groups.get(group_id, []) if fact.topic_id is None or fact.topic_id == topic_id
        ]
        return [
            _event(fact, group_id, topic_id, partition) for fact in [*self._of_all, *mine, *logs, *topics, *leaders]
        ]


def _event(fact: Fact, group_id: str, topic_id: str | None, partition: int | None) -> Event:
    if fact.what == "limit":
        return Event(fact.ts, Kind.LIMIT, group_id, topic_id, partition, start=fact.value)
    if fact.what == "log_start":
        return Event(fact.ts, Kind.LOG_START, group_id, topic_id, partition, start=fact.value)
    if fact.what == "leader":
        return Event(fact.ts, Kind.MOVE, group_id, topic_id, partition, start=fact.value, complete=fact.epoch)
    return Event(fact.ts, Kind.RESET, group_id, topic_id, partition, note=fact.what)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None
