"""The records of share groups in `__consumer_offsets` as the drafts had them.

ConsumerGroupMetadata said in version 1 that a group is one of share consumers, until ShareGroupMetadata took its place.
Assignments were never kept; a coordinator that takes over makes them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kwire.codec import decode, encode
from kwire.messages.drafts.r3 import consumer_group_metadata as worded
from kwire.messages.drafts.r3 import share_group_partition_metadata as untagged
from kwire.messages.drafts.r4 import consumer_group_metadata as numbered
from kwire.messages.drafts.r4 import share_group_member_metadata as members
from kwire.messages.drafts.r4 import share_group_partition_metadata as tagged
from kwire.messages.early_access.share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from mockbroker.coordinators.edition_records import CountOf
from mockbroker.coordinators.share_state_records import (
    TYPE_SIZE,
    Bytes,
    KeyAndValue,
    ReleasedRecords,
    StateRecords,
    typed,
)
from mockbroker.state.group_facts import EpochFact, Fact, FactKind, MemberFact, Partitions, StatesFact, Value

#: The type of a share group: a word in the third revision, a number in the fourth.
_SHARE_WORD, _SHARE_NUMBER = "share", 3
_TYPED_VERSION = 1


class Form(NamedTuple):
    """How facts of one kind are written: classes of key and value, the value's version, and the ways there and back.

    read: None for a record that is about something else.
    """

    key: type[msgspec.Struct]
    value: type[msgspec.Struct]
    version: int
    write: Callable[[Any, CountOf], msgspec.Struct]
    read: Callable[[Any], Value | None]

    @property
    def number(self) -> int:
        """The type of the key."""
        return int(self.key.API_KEY)  # type: ignore[attr-defined]


class DraftRecords:
    """The records of one revision. forms: by the kinds of facts that it keeps. states: those of a share coordinator."""

    def __init__(self, forms: Mapping[FactKind, Form], states: Callable[[], StateRecords] = ReleasedRecords) -> None:
        self._forms = forms
        self._kinds = {form.number: kind for kind, form in forms.items()}
        self._states = states

    def of_states(self) -> StateRecords:
        """The records of one share coordinator, from their beginning."""
        return self._states()

    def of_group(self, facts: Sequence[Fact], count_of: CountOf) -> list[KeyAndValue]:
        """The records of what is kept; the group itself comes before its members, and goes after them."""
        kept = sorted((fact for fact in facts if fact.kind in self._forms), key=_is_later)
        return [self._record_of(fact, count_of) for fact in kept]

    def _record_of(self, fact: Fact, count_of: CountOf) -> KeyAndValue:
        form = self._forms[fact.kind]
        name = (fact.name,) if len(form.key.__struct_fields__) > 1 else ()
        key = typed(form.number, encode(form.key(fact.group_id, *name), 0))
        if fact.value is None:
            return key, None
        return key, typed(form.version, encode(form.write(fact.value, count_of), form.version))

    def group_facts(self, key: Bytes, value: Bytes | None) -> Sequence[Fact] | None:
        """What a record says of a share group; the end of a ConsumerGroupMetadata may be that of either type."""
        number = int.from_bytes(key[:TYPE_SIZE], "big")
        kind = self._kinds.get(number)
        if kind is None:
            return None
        form = self._forms[kind]
        if value is not None and int.from_bytes(value[:TYPE_SIZE], "big") != form.version:
            return None
        group_id, *name = msgspec.structs.astuple(decode(form.key, 0, key[TYPE_SIZE:]))
        if value is None:
            ends = {kind, FactKind(number)} if number == FactKind.CONSUMER_EPOCH else {kind}
            return [Fact(each, group_id, name[0] if name else "", None) for each in sorted(ends)]
        read = form.read(decode(form.value, form.version, value[TYPE_SIZE:]))
        return None if read is None else [Fact(kind, group_id, name[0] if name else "", read)]


def _is_later(fact: Fact) -> bool:
    return fact.kind is not FactKind.SHARE_EPOCH or fact.value is None


def _write_worded(fact: EpochFact, _count_of: CountOf) -> msgspec.Struct:
    return worded.ConsumerGroupMetadataValue(fact.epoch, _SHARE_WORD)


def _read_worded(value: worded.ConsumerGroupMetadataValue) -> EpochFact | None:
    return EpochFact(value.epoch, 0) if value.type == _SHARE_WORD else None


def _write_numbered(fact: EpochFact, _count_of: CountOf) -> msgspec.Struct:
    return numbered.ConsumerGroupMetadataValue(fact.epoch, _SHARE_NUMBER)


def _read_numbered(value: numbered.ConsumerGroupMetadataValue) -> EpochFact | None:
    return EpochFact(value.epoch, 0) if value.type == _SHARE_NUMBER else None


def _write_named(fact: EpochFact, _count_of: CountOf) -> msgspec.Struct:
    return ShareGroupMetadataValue(fact.epoch)


def _read_named(value: ShareGroupMetadataValue) -> EpochFact:
    return EpochFact(value.epoch, 0)


def _write_member(fact: MemberFact, _count_of: CountOf) -> msgspec.Struct:
    return members.ShareGroupMemberMetadataValue(*fact[:4])


def _read_member(value: members.ShareGroupMemberMetadataValue) -> MemberFact:
    return MemberFact(value.rack_id, value.client_id, value.client_host, value.subscribed_topic_names)


def _write_untagged(fact: StatesFact, count_of: CountOf) -> msgspec.Struct:
    return untagged.ShareGroupPartitionMetadataValue(
        fact.epoch,
        [untagged.TopicMetadata(*row) for row in _counts(fact.initialized)],
        [untagged.TopicIndexMetadata(*row) for row in _runs(fact.initializing)],
        [untagged.TopicMetadata(topic_id, count_of(topic_id)) for topic_id in sorted(fact.deleting)],
    )


def _read_untagged(value: untagged.ShareGroupPartitionMetadataValue) -> StatesFact:
    return _states(value.topics, value)


def _write_tagged(fact: StatesFact, count_of: CountOf) -> msgspec.Struct:
    return tagged.ShareGroupPartitionMetadataValue(
        fact.epoch,
        [tagged.TopicMetadata(*row) for row in _counts(fact.initialized)],
        [tagged.TopicIndexMetadata(*row) for row in _runs(fact.initializing)],
        [tagged.TopicMetadata(topic_id, count_of(topic_id)) for topic_id in sorted(fact.deleting)],
    )


def _read_tagged(value: tagged.ShareGroupPartitionMetadataValue) -> StatesFact:
    return _states(value.initialized_topics, value)


def _states(
    initialized: Iterable[untagged.TopicMetadata | tagged.TopicMetadata],
    value: untagged.ShareGroupPartitionMetadataValue | tagged.ShareGroupPartitionMetadataValue,
) -> StatesFact:
    initializing: dict[bytes, frozenset[int]] = {}
    for row in value.initializing_topics:
        run = frozenset(range(row.start_partition_index, row.end_partition_index + 1))
        initializing[row.topic_id] = initializing.get(row.topic_id, frozenset()) | run
    return StatesFact(
        initializing,
        {row.topic_id: frozenset(range(row.num_partitions)) for row in initialized},
        frozenset(row.topic_id for row in value.deleting_topics),
        value.epoch,
    )


def _counts(partitions: Partitions) -> Iterator[tuple[bytes, int]]:
    """How many partitions from 0 on each topic has of these."""
    for topic_id, indexes in partitions.items():
        count = 0
        while count in indexes:
            count += 1
        if count:
            yield topic_id, count


def _runs(partitions: Partitions) -> Iterator[tuple[bytes, int, int]]:
    """The runs of partitions that each topic has of these, by their first and last ones."""
    for topic_id, indexes in partitions.items():
        for first in sorted(indexes):
            if first - 1 in indexes:
                continue
            last = first
            while last + 1 in indexes:
                last += 1
            yield topic_id, first, last


WORDED = Form(
    worded.ConsumerGroupMetadataKey, worded.ConsumerGroupMetadataValue, _TYPED_VERSION, _write_worded, _read_worded
)
NUMBERED = Form(
    numbered.ConsumerGroupMetadataKey,
    numbered.ConsumerGroupMetadataValue,
    _TYPED_VERSION,
    _write_numbered,
    _read_numbered,
)
NAMED = Form(ShareGroupMetadataKey, ShareGroupMetadataValue, 0, _write_named, _read_named)
MEMBER = Form(
    members.ShareGroupMemberMetadataKey, members.ShareGroupMemberMetadataValue, 0, _write_member, _read_member
)
UNTAGGED = Form(
    untagged.ShareGroupPartitionMetadataKey,
    untagged.ShareGroupPartitionMetadataValue,
    0,
    _write_untagged,
    _read_untagged,
)
TAGGED = Form(
    tagged.ShareGroupPartitionMetadataKey, tagged.ShareGroupPartitionMetadataValue, 0, _write_tagged, _read_tagged
)
