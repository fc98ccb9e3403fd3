"""Records of share groups in `__consumer_offsets` in the drafts.

ConsumerGroupMetadata had a group type in version 1, until ShareGroupMetadata replaced it for share groups. Assignments
were not stored; a new coordinator computes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kwire.codec import decode, encode
from kwire.messages.drafts.r3 import consumer_group_metadata as with_type_name
from kwire.messages.drafts.r3 import share_group_partition_metadata as untagged
from kwire.messages.drafts.r4 import consumer_group_metadata as with_type_number
from kwire.messages.drafts.r4 import share_group_member_metadata as members
from kwire.messages.drafts.r4 import share_group_partition_metadata as tagged
from kwire.messages.early_access.share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from mockbroker.cluster_services.edition_records import Bytes, KeyAndValue, PartitionCountLookup, StateRecords
from mockbroker.coordinators.share.share_state_records import TYPE_SIZE, ReleasedRecords, prefix_type
from mockbroker.state.group.coordinator_records import (
    CoordinatorRecord,
    GroupEpochValue,
    MemberMetadataValue,
    PartitionsByTopic,
    RecordKind,
    RecordValue,
    SharePartitionStatesValue,
)


class RecordFormat(NamedTuple):
    """The format of records of one kind: classes of key and value, the value's version, and both conversions.

    read: returns None for another kind of record with the same key.
    """

    key: type[msgspec.Struct]
    value: type[msgspec.Struct]
    version: int
    write: Callable[[Any, PartitionCountLookup], msgspec.Struct]
    read: Callable[[Any], RecordValue | None]

    @property
    def key_type(self) -> int:
        """The type of the key."""
        return int(self.key.API_KEY)  # type: ignore[attr-defined]


RecordFormats = Mapping[RecordKind, RecordFormat]


class DraftRecords:
    """The records of one revision. formats: by kind of record. states: creates the format of share-state records."""

    def __init__(self, formats: RecordFormats, states: Callable[[], StateRecords] = ReleasedRecords) -> None:
        self._formats = formats
        self._kinds = {record_format.key_type: kind for kind, record_format in formats.items()}
        self._new_states = states

    def new_state_records(self) -> StateRecords:
        """The record format of one share coordinator, without history."""
        return self._new_states()

    def encode_group(self, records: Sequence[CoordinatorRecord], count_of: PartitionCountLookup) -> list[KeyAndValue]:
        """Encode the kinds that are stored; the group is created before its members, and deleted after them."""
        stored = sorted((record for record in records if record.kind in self._formats), key=_sort_key)
        return [self._encode_record(record, count_of) for record in stored]

    def _encode_record(self, record: CoordinatorRecord, count_of: PartitionCountLookup) -> KeyAndValue:
        record_format = self._formats[record.kind]
        name = (record.name,) if len(record_format.key.__struct_fields__) > 1 else ()
        key = prefix_type(record_format.key_type, encode(record_format.key(record.group_id, *name), 0))
        if record.value is None:
            return key, None
        version = record_format.version
        return key, prefix_type(version, encode(record_format.write(record.value, count_of), version))

    def decode_group(self, key: Bytes, value: Bytes | None) -> Sequence[CoordinatorRecord] | None:
        """Decode a record of a share group; a tombstone of ConsumerGroupMetadata may be for either group type."""
        number = int.from_bytes(key[:TYPE_SIZE], "big")
        kind = self._kinds.get(number)
        if kind is None:
            return None
        record_format = self._formats[kind]
        if value is not None and int.from_bytes(value[:TYPE_SIZE], "big") != record_format.version:
            return None
        group_id, *name = msgspec.structs.astuple(decode(record_format.key, 0, key[TYPE_SIZE:]))
        if value is None:
            ends = {kind, RecordKind(number)} if number == RecordKind.CONSUMER_EPOCH else {kind}
            return [CoordinatorRecord(each, group_id, name[0] if name else "", None) for each in sorted(ends)]
        read = record_format.read(decode(record_format.value, record_format.version, value[TYPE_SIZE:]))
        return None if read is None else [CoordinatorRecord(kind, group_id, name[0] if name else "", read)]


def _sort_key(record: CoordinatorRecord) -> bool:
    return record.kind is not RecordKind.SHARE_EPOCH or record.value is None


def _typed_epochs(messages: Any, share_type: str | int) -> RecordFormat:
    """Epochs with a group type; those of other types are not read."""

    def write(value: GroupEpochValue, _count_of: PartitionCountLookup) -> Any:
        return messages.ConsumerGroupMetadataValue(value.epoch, share_type)

    def read(value: Any) -> GroupEpochValue | None:
        return GroupEpochValue(value.epoch, 0) if value.type == share_type else None

    return RecordFormat(messages.ConsumerGroupMetadataKey, messages.ConsumerGroupMetadataValue, 1, write, read)


def _write_named(value: GroupEpochValue, _count_of: PartitionCountLookup) -> msgspec.Struct:
    return ShareGroupMetadataValue(value.epoch)


def _read_named(value: ShareGroupMetadataValue) -> GroupEpochValue:
    return GroupEpochValue(value.epoch, 0)


def _write_member(value: MemberMetadataValue, _count_of: PartitionCountLookup) -> msgspec.Struct:
    return members.ShareGroupMemberMetadataValue(*value[:4])


def _read_member(value: members.ShareGroupMemberMetadataValue) -> MemberMetadataValue:
    return MemberMetadataValue(value.rack_id, value.client_id, value.client_host, value.subscribed_topic_names)


def _partition_states(messages: Any, initialized_field: str) -> RecordFormat:
    """The states of share partitions; the field of the initialized ones has two names."""

    def write(value: SharePartitionStatesValue, count_of: PartitionCountLookup) -> Any:
        return messages.ShareGroupPartitionMetadataValue(
            value.epoch,
            [messages.TopicMetadata(*row) for row in _leading_partition_counts(value.initialized)],
            [messages.TopicIndexMetadata(*row) for row in _partition_runs(value.initializing)],
            [messages.TopicMetadata(topic_id, count_of(topic_id)) for topic_id in sorted(value.deleting)],
        )

    def read(value: Any) -> SharePartitionStatesValue:
        initializing: dict[bytes, frozenset[int]] = {}
        for row in value.initializing_topics:
            run = frozenset(range(row.start_partition_index, row.end_partition_index + 1))
            initializing[row.topic_id] = initializing.get(row.topic_id, frozenset()) | run
        rows = getattr(value, initialized_field)
        initialized = {row.topic_id: frozenset(range(row.num_partitions)) for row in rows}
        deleting = frozenset(row.topic_id for row in value.deleting_topics)
        return SharePartitionStatesValue(initializing, initialized, deleting, value.epoch)

    value_class = messages.ShareGroupPartitionMetadataValue
    return RecordFormat(messages.ShareGroupPartitionMetadataKey, value_class, 0, write, read)


def _leading_partition_counts(partitions: PartitionsByTopic) -> Iterator[tuple[bytes, int]]:
    """The number of consecutive partitions from 0 on, by topic."""
    for topic_id, indexes in partitions.items():
        count = 0
        while count in indexes:
            count += 1
        if count:
            yield topic_id, count


def _partition_runs(partitions: PartitionsByTopic) -> Iterator[tuple[bytes, int, int]]:
    """The runs of consecutive partitions of each topic, by their first and last ones."""
    for topic_id, indexes in partitions.items():
        for first in sorted(indexes):
            if first - 1 in indexes:
                continue
            last = first
            while last + 1 in indexes:
                last += 1
            yield topic_id, first, last


_MEMBER = RecordFormat(
    members.ShareGroupMemberMetadataKey, members.ShareGroupMemberMetadataValue, 0, _write_member, _read_member
)
_NAMED_EPOCH = RecordFormat(ShareGroupMetadataKey, ShareGroupMetadataValue, 0, _write_named, _read_named)
_TAGGED = _partition_states(tagged, "initialized_topics")

#: The formats of each revision by record kind. The type of a share group was first a word, and then a number.
R3: RecordFormats = {
    RecordKind.SHARE_EPOCH: _typed_epochs(with_type_name, "share"),
    RecordKind.SHARE_STATES: _partition_states(untagged, "topics"),
}
R4: RecordFormats = {
    RecordKind.SHARE_EPOCH: _typed_epochs(with_type_number, 3),
    RecordKind.SHARE_MEMBER: _MEMBER,
    RecordKind.SHARE_STATES: _TAGGED,
}
R5: RecordFormats = {**R4, RecordKind.SHARE_EPOCH: _NAMED_EPOCH}
