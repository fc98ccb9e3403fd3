"""Facts of groups and committed offsets as the records of `__consumer_offsets`, and back.

Keys and values are those of Kafka's schemas behind two bytes each: the type of the record before the key, the version
before the value. The forms of the newer protocols are in modules of their own, loaded when a group needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from kwire.codec import decode, encode
from kwire.records.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kwire.records.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from mockbroker.state.group_facts import ClassicGroupFact, ClassicMemberFact, Fact, FactKind, Value
from mockbroker.state.offsets import Committed

#: The name of a topic by its id.
NameOf = Callable[[bytes], str]
KeyAndValue = tuple[bytes, bytes | None]
Bytes = bytes | memoryview

_TYPE_SIZE = 2
_OFFSET_VERSION, _EXPIRING_VERSION = 4, 1
_CLASSIC_VERSION = 3
_NO_ID = bytes(16)
_NEVER = -1


class Form(NamedTuple):
    """How facts of one kind are written: classes of key and value, the value's version, and the ways there and back.

    The ways take any of the values, as only their own kind of fact ever comes to them.
    """

    key: type[msgspec.Struct]
    value: type[msgspec.Struct]
    version: int
    write: Callable[[Any, NameOf], msgspec.Struct]
    read: Callable[[Any], Value]


def record_of(fact: Fact, name_of: NameOf) -> KeyAndValue:
    """Key and value of the record that keeps a fact of a group; no value: it is no more."""
    form = _form(fact.kind)
    name = (fact.name,) if len(form.key.__struct_fields__) > 1 else ()
    key = _typed(fact.kind, encode(form.key(fact.group_id, *name), 0))
    if fact.value is None:
        return key, None
    return key, _typed(form.version, encode(form.write(fact.value, name_of), form.version))


def fact_of(key: Bytes, value: Bytes | None) -> Fact | None:
    """The fact of a group that a record keeps; None for a type that is not known here, which Kafka skips too."""
    number = int.from_bytes(key[:_TYPE_SIZE], "big")
    if number not in _KNOWN:
        return None
    kind = FactKind(number)
    form = _form(kind)
    group_id, *name = msgspec.structs.astuple(decode(form.key, 0, key[_TYPE_SIZE:]))
    return Fact(kind, group_id, name[0] if name else "", _read(form, value))


def _read(form: Form, value: Bytes | None) -> Value | None:
    if value is None:
        return None
    version = int.from_bytes(value[:_TYPE_SIZE], "big")
    return form.read(decode(form.value, version, value[_TYPE_SIZE:]))


def offset_record(group_id: str, topic: str, place: tuple[bytes, int], committed: Committed | None) -> KeyAndValue:
    """Key and value of the record that keeps a committed offset. place: the topic's id, and the partition."""
    key = _typed(OffsetCommitKey.API_KEY, encode(OffsetCommitKey(group_id, topic, place[1]), 0))
    if committed is None:
        return key, None
    value = OffsetCommitValue(
        committed.offset, committed.leader_epoch, committed.metadata, committed.committed_at_ms, topic_id=place[0]
    )
    if committed.expires_ms is None:
        return key, _typed(_OFFSET_VERSION, encode(value, _OFFSET_VERSION))
    # Only this version has a place for it, and none for what came later.
    old = OffsetCommitValue(
        committed.offset,
        metadata=committed.metadata,
        commit_timestamp=committed.committed_at_ms,
        expire_timestamp=committed.expires_ms,
    )
    return key, _typed(_EXPIRING_VERSION, encode(old, _EXPIRING_VERSION))


class OffsetRecord(NamedTuple):
    """A committed offset as read. topic_id: None when the record does not say; committed: None when it is deleted."""

    group_id: str
    topic: str
    topic_id: bytes | None
    partition: int
    committed: Committed | None


def offset_of(key: Bytes, value: Bytes | None) -> OffsetRecord | None:
    """The committed offset that a record keeps; None for another record."""
    if int.from_bytes(key[:_TYPE_SIZE], "big") != OffsetCommitKey.API_KEY:
        return None
    place = decode(OffsetCommitKey, 0, key[_TYPE_SIZE:])
    if value is None:
        return OffsetRecord(place.group, place.topic, None, place.partition, None)
    version = int.from_bytes(value[:_TYPE_SIZE], "big")
    row = decode(OffsetCommitValue, version, value[_TYPE_SIZE:])
    expires_ms = None if row.expire_timestamp == _NEVER else row.expire_timestamp
    committed = Committed(row.offset, row.leader_epoch, row.metadata, row.commit_timestamp, expires_ms)
    topic_id = None if row.topic_id == _NO_ID else row.topic_id
    return OffsetRecord(place.group, place.topic, topic_id, place.partition, committed)


def _typed(number: int, body: bytes) -> bytes:
    return number.to_bytes(_TYPE_SIZE, "big") + body


def _write_classic(fact: ClassicGroupFact, _name_of: NameOf) -> GroupMetadataValue:
    return GroupMetadataValue(
        fact.protocol_type,
        fact.generation_id,
        fact.protocol_name,
        fact.leader_id,
        fact.state_since_ms,
        [MemberMetadata(*row) for row in fact.members],
    )


def _read_classic(value: GroupMetadataValue) -> ClassicGroupFact:
    members = [
        ClassicMemberFact(
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
    ]
    return ClassicGroupFact(
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        value.current_state_timestamp,
        tuple(members),
    )


_KNOWN = frozenset(int(kind) for kind in FactKind)
_CLASSIC = Form(GroupMetadataKey, GroupMetadataValue, _CLASSIC_VERSION, _write_classic, _read_classic)


@cache
def _form(kind: FactKind) -> Form:
    if kind is FactKind.CLASSIC_GROUP:
        return _CLASSIC
    module = kind.name.partition("_")[0].lower()
    form = import_module(f"mockbroker.coordinators.group_records_{module}").FORMS[kind]
    assert isinstance(form, Form)
    return form
