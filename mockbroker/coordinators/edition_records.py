"""What an edition of KIP-932 that has records of its own provides for the coordinators that write and read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from mockbroker.coordinators.share_state_records import Bytes, KeyAndValue, StateRecords
from mockbroker.state.group_facts import Fact

#: How many partitions a topic has, by its id; 0 for one that is no more.
CountOf = Callable[[bytes], int]


class EditionRecords(Protocol):
    """The records of share groups, and of their state."""

    def of_states(self) -> StateRecords:
        """The records of one share coordinator, from their beginning."""
        ...

    def of_group(self, facts: Sequence[Fact], count_of: CountOf) -> list[KeyAndValue]:
        """The records that keep facts of a share group; some facts are not kept."""
        ...

    def group_facts(self, key: Bytes, value: Bytes | None) -> Sequence[Fact] | None:
        """What a record may say of groups: that of these which is about a group of its own type. None: no such one."""
        ...
