"""Builds a request body from its schema: each field gets a value from its pool, rows refer to one subject."""

from __future__ import annotations

from typing import Any

from kwire.schema.spec import FieldSpec, MessageSpec
from mockbroker.config.keys import Scope
from tools.oracle.fuzz.record_data import record_batches
from tools.oracle.fuzz.script_names import (
    GROUPS,
    INTERNAL_TOPICS,
    INVALID_TOPICS,
    MEMBERS,
    MISSING_GROUP,
    MISSING_TOPIC,
    TOPICS,
    TRANSACTIONAL_IDS,
    ZERO_UUID,
    Focus,
    SequenceState,
    Topic,
)
from tools.oracle.fuzz.value_pools import (
    BROKER_CONFIGS,
    POOLS,
    RESOURCE_SCOPES,
    Pool,
    config_names,
    config_values,
)

Json = Any

_UNUSUAL_CHANCE = 0.07
_OPTIONAL_NULL_CHANCE = 0.12

#: APIs that may be sent the name of an internal topic: they change nothing that other sequences see.
_INTERNAL_TOPIC_APIS = frozenset(
    {"Metadata", "OffsetCommit", "OffsetFetch", "Produce", "DescribeTopicPartitions", "CreateTopics", "OffsetDelete"}
)
#: The type of the groups that an API is about; the other APIs get groups of all types.
_GROUP_TYPES = {
    **dict.fromkeys(("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"), "classic"),
    **dict.fromkeys(("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"), "consumer"),
    **dict.fromkeys(("StreamsGroupHeartbeat", "StreamsGroupDescribe"), "streams"),
    "StreamsGroupTopologyDescriptionUpdate": "streams",
    **dict.fromkeys(("ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge"), "share"),
    **dict.fromkeys(("AlterShareGroupOffsets", "DeleteShareGroupOffsets", "DescribeShareGroupOffsets"), "share"),
    **dict.fromkeys(("InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState"), "share"),
    **dict.fromkeys(("DeleteShareGroupState", "ReadShareGroupStateSummary"), "share"),
}
#: APIs that store something for a group with an empty name, which all sequences would share.
_NO_EMPTY_GROUP = frozenset({"OffsetCommit", "TxnOffsetCommit", "AddOffsetsToTxn"})
_GROUP_FIELDS = frozenset({"groupId", "groups", "groupIds", "groupsNames"})
_TOPIC_FIELDS = frozenset({"topic", "topicName", "topicNames", "subscribedTopicNames", "sourceTopics"})
_PARTITION_FIELDS = frozenset({"partition", "partitionIndex", "partitions", "partitionIndexes", "index"})
_TOPIC_NAME_APIS = frozenset(
    {
        *("AddPartitionsToTxn", "AlterPartitionReassignments", "AlterReplicaLogDirs", "CreatePartitions"),
        *("CreateTopics", "DeleteRecords", "DeleteTopics", "DescribeProducers", "DescribeTopicPartitions"),
        *("ListOffsets", "ListPartitionReassignments", "Metadata", "OffsetCommit", "OffsetDelete", "OffsetFetch"),
        *("Produce", "TxnOffsetCommit", "WriteTxnMarkers"),
    }
)


class RequestBuilder:
    """Builds the body of one request."""

    def __init__(self, spec: MessageSpec, version: int, state: SequenceState) -> None:
        self.spec = spec
        self.api = spec.name.removesuffix("Request")
        self.version = version
        self.state = state
        self.rng = state.rng
        self.focus = Focus(version=version)

    def build(self) -> dict[str, Json]:
        """A body in Kafka's JSON form, with variables of the script."""
        self._choose_group()
        self.focus.producer = self.rng.choice(["x", "x", "y"])
        return self._struct(self.spec.fields)

    def _struct(self, fields: tuple[FieldSpec, ...]) -> dict[str, Json]:
        names = {field.json_name for field in fields}
        if names & {"topicId", "topic", "topicName"} or ("name" in names and self.api in _TOPIC_NAME_APIS):
            self._choose_topic()
        if "resourceType" in names and self.api != "CreateAcls":
            self.focus.resource_type = self.rng.choice([2, 2, 2, 32, 32, 16, 4])
        if "groupId" in names:
            self._choose_group()
        return {field.json_name: self._field(field) for field in fields if self.version in field.versions}

    def _field(self, field: FieldSpec) -> Json:
        if field.is_array:
            return self._array(field)
        nullable = self.version in field.nullable_versions
        if field.struct is not None:
            return None if nullable and self.state.is_likely(0.5) else self._struct(field.fields)
        return self._value(field)

    def _array(self, field: FieldSpec) -> Json:
        nullable = self.version in field.nullable_versions
        if nullable and self.state.is_likely(_OPTIONAL_NULL_CHANCE):
            return None
        count = self.rng.choice([1, 1, 1, 2, 2, 3, 0])
        if field.struct is not None:
            return [self._struct(field.fields) for _ in range(count)]
        return [self._value(field) for _ in range(count)]

    def _value(self, field: FieldSpec) -> Json:
        name = field.json_name
        pool = POOLS.get(f"{self.api}.{name}") or POOLS.get(name)
        special = self._special_value(name, field) if pool is None else None
        if pool is not None:
            special = self._draw(pool)
        if special is None and self.version not in field.nullable_versions:
            return self._plain_value(field)
        return special

    def _draw(self, pool: Pool) -> Json:
        unusual = pool.unusual and self.state.is_likely(_UNUSUAL_CHANCE)
        return self.rng.choice(pool.unusual if unusual else pool.usual)

    def _special_value(self, name: str, field: FieldSpec) -> Json:
        """The value of a field that refers to something of the sequence; None for none."""
        if name in _GROUP_FIELDS and field.element_type == "string":
            self._choose_group()
            return self.focus.group
        if name == "memberId":
            return self._member_id()
        if name in ("memberEpoch", "generationId", "generationIdOrMemberEpoch"):
            return self._member_epoch()
        if name in _TOPIC_FIELDS or (name == "name" and self.api in _TOPIC_NAME_APIS):
            return self._topic_name(name, field)
        if name == "topicId":
            return self._topic_id()
        if name in _PARTITION_FIELDS:
            return self._partition()
        if name == "lastOffset":
            return self.rng.choice([0, 1, 2, 3, 5])
        return self._identity_value(name) if field.element_type != "bool" else self.state.is_likely(0.5)

    def _identity_value(self, name: str) -> Json:
        producer = self.focus.producer
        if name in ("transactionalId", "v3AndBelowTransactionalId", "transactionalIds"):
            return self.rng.choice([TRANSACTIONAL_IDS[producer]] * 8 + ["", "none-${run}"])
        if name in ("producerId", "v3AndBelowProducerId", "producerIdFilters"):
            return self.rng.choice([f"${{pid_{producer}}}"] * 9 + [-1, 10**12])
        if name in ("producerEpoch", "v3AndBelowProducerEpoch"):
            text = f"pid_{producer}_e"
            return self.rng.choice([f"${{{text}}}"] * 8 + [f"${{{text}+1}}", f"${{{text}-1}}", -1])
        if name in ("coordinatorKeys", "key"):
            return self.rng.choice([*GROUPS.values(), *TRANSACTIONAL_IDS.values(), "", "g:bad"])
        if name in ("resourceName", "resourceNameFilter"):
            return self._resource_name()
        if name in ("configurationKeys", "name", "value"):
            return self._config_part(name)
        if name == "records":
            return record_batches(self.rng)
        return None

    def _plain_value(self, field: FieldSpec) -> Json:
        kind = field.element_type
        if kind == "bool":
            return self.state.is_likely(0.5)
        if kind in ("string", "bytes", "records"):
            return ""
        if kind == "uuid":
            return ZERO_UUID
        return 0.0 if kind == "float64" else self.rng.choice([0, 0, 1, -1])

    def _choose_group(self) -> None:
        kind = _GROUP_TYPES.get(self.api)
        if kind is None or self.state.is_likely(0.08):
            kind = self.rng.choice(["classic", "classic", "consumer", "share", "streams", "simple"])
        self.focus.group_type = kind
        self.focus.group = GROUPS[kind]
        if self.state.is_likely(0.06):
            others = [MISSING_GROUP] if self.api in _NO_EMPTY_GROUP else [MISSING_GROUP, MISSING_GROUP, ""]
            self.focus.group = self.rng.choice(others)
        self.focus.member = self.rng.choice(MEMBERS.get(kind, MEMBERS["classic"]))

    def _member_id(self) -> str:
        chance = self.rng.random()
        if chance < 0.06:
            return self.rng.choice(["", "nobody", "x" * 40])
        if self.focus.group_type == "simple" and chance < 0.7:
            return ""
        return f"${{{self.focus.member}}}"

    def _member_epoch(self) -> Json:
        variable = f"{self.focus.member}_e"
        chance = self.rng.random()
        if chance < 0.1:
            return self.rng.choice([-1, 0, -2, 100, f"${{{variable}+1}}", f"${{{variable}-1}}"])
        if self.focus.group_type == "simple":
            return -1
        return f"${{{variable}}}"

    def _choose_topic(self) -> None:
        chance = self.rng.random()
        topics: tuple[Topic, ...] = tuple(self.state.topics) or TOPICS[:1]
        if chance < 0.07:
            topics = (MISSING_TOPIC,)
        elif chance < 0.11:
            topics = INVALID_TOPICS
        elif chance < 0.14 and self.api in _INTERNAL_TOPIC_APIS:
            topics = INTERNAL_TOPICS
        self.focus.topic = self.rng.choice(topics)

    def _topic_name(self, name: str, field: FieldSpec) -> Json:
        if field.is_array or name == "topicNames":
            self._choose_topic()
        if self.version in field.nullable_versions and self.api in ("Metadata", "DeleteTopics"):
            return None if self.state.is_likely(0.6) else self.focus.topic.name
        return self.focus.topic.name

    def _topic_id(self) -> str:
        if self.api in ("Metadata", "DeleteTopics") and self.state.is_likely(0.4):
            return ZERO_UUID
        return self.rng.choice([self.focus.topic.topic_id] * 15 + [ZERO_UUID, "${uuid:nowhere}"])

    def _partition(self) -> int:
        if self.state.is_likely(0.08):
            return self.rng.choice([self.focus.topic.partitions, -1, 100, 2**31 - 1])
        return self.rng.randrange(self.focus.topic.partitions)

    def _resource_name(self) -> str:
        if self.api in ("CreateAcls", "DeleteAcls", "DescribeAcls"):
            return self.rng.choice(["t-${run}", "acl-${run}", "g-${run}", "acl-${run}x"])
        kind = self.focus.resource_type
        if kind == 4:
            return self.rng.choice(["0", "0", "0", "", "7", "abc"])
        names = {2: [topic.name for topic in self.state.topics], 32: list(GROUPS.values()), 16: ["metrics-${run}"]}
        return self.rng.choice([*(names.get(kind) or ["any-${run}"]), "none-${run}"])

    def _config_part(self, name: str) -> Json:
        scope = RESOURCE_SCOPES.get(self.focus.resource_type, Scope.TOPIC)
        if self.api == "CreateTopics":
            scope = Scope.TOPIC
        if self.focus.resource_type == 4 and self.api != "CreateTopics":
            return self.rng.choice(BROKER_CONFIGS) if name != "value" else "1"
        if name == "value":
            return self._draw(config_values(scope, self._config_name))
        self._config_name = self.rng.choice([*config_names(scope), "nosuch"])
        return "" if self.state.is_likely(0.02) else self._config_name

    _config_name = ""
