"""The records of Apache Kafka 4.0.0: ShareSnapshot and ShareUpdate without times and counts.

Those of groups are written as 4.3.0 writes them, which tells a reader more than 4.0.0 did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kwire.codec import decode, encode
from kwire.messages.early_access.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.messages.early_access.share_snapshot import StateBatch as SnapshotBatch
from kwire.messages.early_access.share_update import ShareUpdateKey, ShareUpdateValue
from kwire.messages.early_access.share_update import StateBatch as UpdateBatch
from mockbroker.edition_records import CountOf
from mockbroker.group_records import record_of
from mockbroker.share_state_records import TYPE_SIZE, Bytes, KeyAndValue, typed
from mockbroker.state.group_facts import SHARE_KINDS, FactKind
from mockbroker.state.group_facts import Fact as GroupFact
from mockbroker.state.share_coordinator import Fact, ShareKey, Snapshot, Stored, Update
from mockbroker.state.state_batches import StateBatch

_SNAPSHOT, _UPDATE = ShareSnapshotKey.API_KEY, ShareUpdateKey.API_KEY
#: Snapshots are numbered in 16 bits, without a sign.
_EPOCHS = 1 << 16
#: No count of what is done was kept yet.
_NO_COUNT = -1


class EarlyRecords:
    """The records of the edition. Nobody initialises a state, so nothing is kept of which ones are initialised."""

    def of_states(self) -> EarlyStates:
        """The records of one share coordinator, from their beginning."""
        return EarlyStates()

    def of_group(self, facts: Sequence[GroupFact], _count_of: CountOf) -> list[KeyAndValue]:
        """Those of 4.3.0."""
        kept = [fact for fact in facts if fact.kind in SHARE_KINDS and fact.kind is not FactKind.SHARE_STATES]
        return [record_of(fact, lambda topic_id: "") for fact in kept]

    def group_facts(self, _key: Bytes, _value: Bytes | None) -> None:
        """They are read as those of 4.3.0 as well."""
        return


class EarlyStates:
    """How a share coordinator of 4.0.0 writes and reads its topic."""

    def write(self, fact: Fact) -> list[KeyAndValue]:
        """One record for each fact."""
        if isinstance(fact, Update):
            epoch, batches = fact.snapshot_epoch % _EPOCHS, [UpdateBatch(*batch) for batch in fact.batches]
            update = ShareUpdateValue(epoch, fact.leader_epoch, fact.start_offset, batches)
            return [(typed(_UPDATE, encode(ShareUpdateKey(*fact.key), 0)), typed(0, encode(update, 0)))]
        key = typed(_SNAPSHOT, encode(ShareSnapshotKey(*fact.key), 0))
        stored = fact.value
        if stored is None:
            return [(key, None)]
        snapshot = ShareSnapshotValue(
            stored.snapshot_epoch % _EPOCHS,
            stored.state_epoch,
            stored.leader_epoch,
            stored.start_offset,
            [SnapshotBatch(*batch) for batch in stored.batches],
        )
        return [(key, typed(0, encode(snapshot, 0)))]

    def read(self, key: Bytes, value: Bytes | None, timestamp: int) -> Fact | None:
        """A snapshot does not tell its times, which are those of its record."""
        kind = int.from_bytes(key[:TYPE_SIZE], "big")
        if kind == _UPDATE and value is not None:
            name = decode(ShareUpdateKey, 0, key[TYPE_SIZE:])
            update = decode(ShareUpdateValue, 0, value[TYPE_SIZE:])
            return Update(
                ShareKey(name.group_id, name.topic_id, name.partition),
                update.snapshot_epoch,
                update.leader_epoch,
                update.start_offset,
                _NO_COUNT,
                _batches(update.state_batches),
            )
        if kind != _SNAPSHOT:
            return None
        place = decode(ShareSnapshotKey, 0, key[TYPE_SIZE:])
        share_key = ShareKey(place.group_id, place.topic_id, place.partition)
        if value is None:
            return Snapshot(share_key, None)
        snapshot = decode(ShareSnapshotValue, 0, value[TYPE_SIZE:])
        stored = Stored(
            snapshot.snapshot_epoch,
            snapshot.state_epoch,
            snapshot.leader_epoch,
            snapshot.start_offset,
            _NO_COUNT,
            _batches(snapshot.state_batches),
            timestamp,
            timestamp,
        )
        return Snapshot(share_key, stored)


def _batches(rows: Iterable[SnapshotBatch | UpdateBatch]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(row.first_offset, row.last_offset, row.delivery_state, row.delivery_count) for row in rows)
