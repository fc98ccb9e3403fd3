"""`ValueMap`: values that a broker chose, captured and new: ids, epochs and nodes. Learned from pairs of responses."""

from __future__ import annotations

from typing import NamedTuple

from mockbroker.replay.response_trees import NODE_KEYS, NOTHING, Json

_ZERO_UUID = "A" * 22
#: Values that mean "none", which are never mapped.
_NONE_VALUES: frozenset[object] = frozenset({None, "", _ZERO_UUID, -1, -2})

_ID_KINDS = {
    **dict.fromkeys(("topicId", "topicIds"), "topic"),
    **dict.fromkeys(("memberId", "leader", "memberIds"), "member"),
    **dict.fromkeys(("directoryId", "replicaDirectoryId", "directories"), "directory"),
    "clusterId": "cluster",
    "clientInstanceId": "client instance",
    **dict.fromkeys(("producerId", "v3AndBelowProducerId"), "producer"),
    "sessionId": "session",
    **dict.fromkeys(NODE_KEYS, "node"),
}
#: Numbers that count within something: their scope is a group, a producer, or a partition.
_GROUP_EPOCHS = frozenset(
    {"generationId", "generationIdOrMemberEpoch", "memberEpoch", "groupEpoch", "assignmentEpoch", "groupMetadataEpoch"}
)
_PARTITION_EPOCHS = frozenset({"leaderEpoch", "currentLeaderEpoch", "lastFetchedEpoch", "partitionEpoch"})
_TOPIC_NAMES = ("name", "topic", "topicName", "topicId")
_PARTITIONS = ("partitionIndex", "partition", "index")


class Scope(NamedTuple):
    """What a number belongs to, as the capture names it."""

    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    producer: int | None = None

    def inside(self, tree: dict[str, Json]) -> Scope:
        """The scope of the fields of an object."""
        group = tree.get("groupId", self.group)
        topic = next((tree[key] for key in _TOPIC_NAMES if isinstance(tree.get(key), str) and tree[key]), self.topic)
        partition = next((tree[key] for key in _PARTITIONS if isinstance(tree.get(key), int)), self.partition)
        producer = tree.get("producerId", tree.get("v3AndBelowProducerId", self.producer))
        return Scope(group, topic, partition, producer)


_Key = tuple[object, ...]
_NO_SCOPE = Scope()


class ValueMap:
    """New values by captured ones. The first pair counts: another new value for the same one is a difference."""

    def __init__(self) -> None:
        self._values: dict[_Key, Json] = {}
        # Topics are named by id or by name; both are one scope.
        self._topic_names: dict[str, str] = {}

    def add_node(self, captured_id: int, new_id: int) -> None:
        """Map the id of a node."""
        self._values["node", captured_id] = new_id

    def learn(self, captured: Json, new: Json, scope: Scope = _NO_SCOPE, key: str = "") -> None:
        """Learn from two trees of the same shape, whose arrays are aligned."""
        if isinstance(captured, dict) and isinstance(new, dict):
            self._learn_topic_name(captured)
            inner = scope.inside(captured)
            for name in captured.keys() & new.keys():
                self.learn(captured[name], new[name], inner, name)
        elif isinstance(captured, list) and isinstance(new, list):
            for left, right in zip(captured, new, strict=False):
                self.learn(left, right, scope, key)
        elif not isinstance(captured, dict | list) and not isinstance(new, dict | list) and new != NOTHING:
            map_key = self._map_key(key, captured, scope)
            if map_key is not None and new not in _NONE_VALUES:
                self._values.setdefault(map_key, new)

    def translate(self, captured: Json, scope: Scope = _NO_SCOPE, key: str = "") -> Json:
        """The tree with new values for those that are mapped."""
        if isinstance(captured, dict):
            inner = scope.inside(captured)
            return {name: self.translate(value, inner, name) for name, value in captured.items()}
        if isinstance(captured, list):
            return [self.translate(value, scope, key) for value in captured]
        map_key = self._map_key(key, captured, scope)
        return captured if map_key is None else self._values.get(map_key, captured)

    def producer(self, producer_id: int, epoch: int) -> tuple[int, int]:
        """The new id and epoch of a producer, for record batches."""
        new_id = self._values.get(("producer", producer_id), producer_id)
        return new_id, self._values.get(("producerEpoch", producer_id, epoch), epoch)

    def _map_key(self, key: str, value: Json, scope: Scope) -> _Key | None:
        if value in _NONE_VALUES or isinstance(value, bool | float):
            return None
        kind = _ID_KINDS.get(key)
        if kind is not None:
            return None if kind == "session" and value == 0 else (kind, value)
        if key in ("producerEpoch", "v3AndBelowProducerEpoch"):
            return ("producerEpoch", scope.producer, value)
        if key in _GROUP_EPOCHS and scope.group is not None and value != 0:
            return ("group epoch", scope.group, value)
        if key in _PARTITION_EPOCHS and scope.topic is not None:
            return ("partition epoch", self._topic_names.get(scope.topic, scope.topic), scope.partition, value)
        return None

    def _learn_topic_name(self, tree: dict[str, Json]) -> None:
        topic_id = tree.get("topicId")
        name = next((tree[key] for key in ("name", "topicName") if isinstance(tree.get(key), str)), None)
        if isinstance(topic_id, str) and topic_id != _ZERO_UUID and name:
            self._topic_names[topic_id] = name
