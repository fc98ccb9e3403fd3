"""Encoding the records of groups and committed offsets of `__consumer_offsets`, and decoding them.

Keys and values are those of Kafka's schemas behind two bytes each: the type of the record before the key, the version
before the value. The forms of the newer protocols are in separate modules, loaded when a group needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from kwire.codec import decode, encode
from kwire.records.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kwire.records.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from kwire.registry import message_class
from mockbroker.state.group import coordinator_records as values
from mockbroker.state.group.committed_offsets import CommittedOffset
from mockbroker.state.group.coordinator_records import CoordinatorRecord, RecordKind, RecordValue
from mockbroker.state.metadata.topics import TopicPartitionKey

#: The name of a topic by its id.
TopicNameLookup = Callable[[bytes], str]
KeyAndValue = tuple[bytes, bytes | None]
Bytes = bytes | memoryview

_TYPE_SIZE = 2
_OFFSET_VERSION, _EXPIRING_VERSION = 4, 1
_CLASSIC_VERSION = 3
_NO_ID = bytes(16)
_NEVER = -1


class RecordForm(NamedTuple):
    """The form of one kind of record: classes of key and value, the value's two conversions, and its version.

    The conversions accept any value by type, as they are only called with their own kind of record.
    """

    key: type[msgspec.Struct]
    value: type[msgspec.Struct]
    write: Callable[[Any, TopicNameLookup], msgspec.Struct]
    read: Callable[[Any], RecordValue]
    version: int = 0


def record_form(
    name: str, write: Callable[[Any, TopicNameLookup], msgspec.Struct], read: Callable[[Any], RecordValue]
) -> RecordForm:
    """The form of a record by its name in Kafka's schemas."""
    return RecordForm(message_class(f"{name}Key"), message_class(f"{name}Value"), write, read)


def plain_form(name: str, value_class: Callable[..., RecordValue]) -> RecordForm:
    """The form of a record whose fields are the first ones of the value, in the same order."""
    record_class = message_class(f"{name}Value")
    count = len(record_class.__struct_fields__) - 1  # The last one is of unknown tagged fields.

    def write(value: tuple[object, ...], _name_of: TopicNameLookup) -> msgspec.Struct:
        return record_class(*value[:count])

    return record_form(name, write, lambda record: value_class(*astuple(record)[:count]))


def target_form(name: str, row_class: Callable[[bytes, tuple[int, ...]], object]) -> RecordForm:
    """The form of the target assignment of a member; row_class: the class of a topic's row."""
    record_class = message_class(f"{name}Value")

    def write(value: values.TargetAssignmentValue, _name_of: TopicNameLookup) -> msgspec.Struct:
        partitions = value.partitions.items()
        return record_class([row_class(topic_id, tuple(sorted(indexes))) for topic_id, indexes in partitions])

    def read(record: Any) -> values.TargetAssignmentValue:
        return values.TargetAssignmentValue(
            {row.topic_id: frozenset(row.partitions) for row in record.topic_partitions}
        )

    return record_form(name, write, read)


def encode_group_record(record: CoordinatorRecord, name_of: TopicNameLookup) -> KeyAndValue:
    """Key and value of a record of a group; no value: a tombstone."""
    form = _form(record.kind)
    name = (record.name,) if len(form.key.__struct_fields__) > 1 else ()
    key = _prefix_type(record.kind, encode(form.key(record.group_id, *name), 0))
    if record.value is None:
        return key, None
    return key, _prefix_type(form.version, encode(form.write(record.value, name_of), form.version))


def decode_group_record(key: Bytes, value: Bytes | None) -> CoordinatorRecord | None:
    """Decode a record of a group; None for an unknown type, which Kafka skips too."""
    record_type = int.from_bytes(key[:_TYPE_SIZE], "big")
    if record_type not in _KNOWN_TYPES:
        return None
    kind = RecordKind(record_type)
    form = _form(kind)
    group_id, *name = astuple(decode(form.key, 0, key[_TYPE_SIZE:]))
    record_value = None
    if value is not None:
        version = int.from_bytes(value[:_TYPE_SIZE], "big")
        record_value = form.read(decode(form.value, version, value[_TYPE_SIZE:]))
    return CoordinatorRecord(kind, group_id, name[0] if name else "", record_value)


def encode_offset_record(
    group_id: str, topic: str, partition: TopicPartitionKey, committed: CommittedOffset | None
) -> KeyAndValue:
    """Key and value of the record that stores a committed offset. partition: the topic's id, and the index."""
    key = _encode_offset_key(group_id, topic, partition[1])
    if committed is None:
        return key, None
    value = OffsetCommitValue(
        committed.offset, committed.leader_epoch, committed.metadata, committed.committed_at_ms, topic_id=partition[0]
    )
    if committed.expires_ms is None:
        return key, _prefix_type(_OFFSET_VERSION, encode(value, _OFFSET_VERSION))
    # Only this version has the field for it, and it has none of the later fields.
    old = OffsetCommitValue(
        committed.offset,
        metadata=committed.metadata,
        commit_timestamp=committed.committed_at_ms,
        expire_timestamp=committed.expires_ms,
    )
    return key, _prefix_type(_EXPIRING_VERSION, encode(old, _EXPIRING_VERSION))


@lru_cache(maxsize=128)  # A group commits the same partitions again and again.
def _encode_offset_key(group_id: str, topic: str, partition_index: int) -> bytes:
    return _prefix_type(OffsetCommitKey.API_KEY, encode(OffsetCommitKey(group_id, topic, partition_index), 0))


class OffsetRecord(NamedTuple):
    """A decoded offset record. topic_id: None when the record has none; committed: None in a tombstone."""

    group_id: str
    topic: str
    topic_id: bytes | None
    partition: int
    committed: CommittedOffset | None


def decode_offset_record(key: Bytes, value: Bytes | None) -> OffsetRecord | None:
    """The committed offset that a record stores; None for another record type."""
    if int.from_bytes(key[:_TYPE_SIZE], "big") != OffsetCommitKey.API_KEY:
        return None
    offset_key = decode(OffsetCommitKey, 0, key[_TYPE_SIZE:])
    if value is None:
        return OffsetRecord(offset_key.group, offset_key.topic, None, offset_key.partition, None)
    version = int.from_bytes(value[:_TYPE_SIZE], "big")
    row = decode(OffsetCommitValue, version, value[_TYPE_SIZE:])
    expires_ms = None if row.expire_timestamp == _NEVER else row.expire_timestamp
    committed = CommittedOffset(row.offset, row.leader_epoch, row.metadata, row.commit_timestamp, expires_ms)
    topic_id = None if row.topic_id == _NO_ID else row.topic_id
    return OffsetRecord(offset_key.group, offset_key.topic, topic_id, offset_key.partition, committed)


def _prefix_type(number: int, body: bytes) -> bytes:
    return number.to_bytes(_TYPE_SIZE, "big") + body


def _write_classic(value: values.ClassicGroupValue, _name_of: TopicNameLookup) -> GroupMetadataValue:
    return GroupMetadataValue(
        value.protocol_type,
        value.generation_id,
        value.protocol_name,
        value.leader_id,
        value.state_since_ms,
        [MemberMetadata(*row) for row in value.members],
    )


def _read_classic(value: GroupMetadataValue) -> values.ClassicGroupValue:
    members = tuple(
        values.ClassicMemberValue(
            row.member_id,
            row.group_instance_id,
            row.client_id,
            row.client_host,
            row.rebalance_timeout,
            row.session_timeout,
            bytes(row.subscription),
            bytes(row.assignment),
        )
        for row in value.members
    )
    return values.ClassicGroupValue(
        value.protocol_type, value.generation, value.protocol, value.leader, value.current_state_timestamp, members
    )


_KNOWN_TYPES = frozenset(int(kind) for kind in RecordKind)
_CLASSIC = RecordForm(GroupMetadataKey, GroupMetadataValue, _write_classic, _read_classic, _CLASSIC_VERSION)


@cache
def _form(kind: RecordKind) -> RecordForm:
    if kind is RecordKind.CLASSIC_GROUP:
        return _CLASSIC
    module = kind.name.partition("_")[0].lower()
    form = import_module(f"mockbroker.coordinators.group.group_records_{module}").FORMS[kind]
    assert isinstance(form, RecordForm)
    return form
