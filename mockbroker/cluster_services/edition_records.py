"""`EditionRecords`: the record formats of an edition of KIP-932 whose coordinators do not write the released ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from mockbroker.state.group.coordinator_records import CoordinatorRecord
from mockbroker.state.share_coordinator.share_coordinator import StateRecord

Bytes = bytes | memoryview
KeyAndValue = tuple[bytes, bytes | None]

#: The partition count of a topic by its id; 0 for a topic that does not exist.
PartitionCountLookup = Callable[[bytes], int]


class StateRecords(Protocol):
    """The record format in which one share coordinator writes and reads its topic."""

    def write(self, fact: StateRecord) -> list[KeyAndValue]:
        """The records that store a fact, at least one; no value: the share partition is deleted."""

    def read(self, key: Bytes, value: Bytes | None, timestamp: int) -> StateRecord | None:
        """The fact that a record stores; None for an unknown type, which Kafka skips as well."""


class EditionRecords(Protocol):
    """The records of share groups, and of their persisted state."""

    def new_state_records(self) -> StateRecords:
        """The record format of one share coordinator, without history."""

    def encode_group(self, records: Sequence[CoordinatorRecord], count_of: PartitionCountLookup) -> list[KeyAndValue]:
        """Encode records of a share group; an edition may not store all kinds."""

    def decode_group(self, key: Bytes, value: Bytes | None) -> Sequence[CoordinatorRecord] | None:
        """Decode a record of a share group to released records; None for a record of another type."""
