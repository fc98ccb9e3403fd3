"""`ProducerFiles`: the snapshots of the producer states of a partition. Source: Kafka's ProducerStateManager."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from mockbroker.disk_storage.replica_folders import ReplicaFolders
from mockbroker.log_directory.formats import names, producer_snapshots
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.state.storage.producers import AbortedTransaction, ProducerState, ProducerStates
from mockbroker.state.storage.stored_batch import StoredBatch


class ProducerFiles:
    """Writes and reads snapshots: at the beginning of each segment, and the newest one after that."""

    def __init__(self, folders: ReplicaFolders, report: Callable[[str], None]) -> None:
        self._folders = folders
        self._report = report

    def write_snapshot(self, offset: int, states: Sequence[ProducerState]) -> None:
        """Write the states at an offset. Raises: OSError."""
        self._folders.write_file(names.file_name(offset, names.SNAPSHOT), producer_snapshots.write_snapshot(states))

    def remove_snapshots_after(self, offset: int) -> None:
        """Remove the snapshots behind the end of the log. Raises: OSError."""
        for found in self._offsets():
            if found > offset:
                self._folders.remove(names.file_name(found, names.SNAPSHOT))

    def remove_snapshots(self) -> None:
        """Remove all snapshots. Raises: OSError."""
        for found in self._offsets():
            self._folders.remove(names.file_name(found, names.SNAPSHOT))

    def remove_unused(self, base_offsets: Container[int]) -> None:
        """Remove the snapshots that belong to no segment, except the newest one. Raises: OSError."""
        for found in self._offsets()[:-1]:
            if found not in base_offsets:
                self._folders.remove(names.file_name(found, names.SNAPSHOT))

    def restore_states(
        self,
        end_offset: int,
        aborted: Sequence[AbortedTransaction],
        batches_between: Callable[[int, int], Iterable[StoredBatch]],
        *,
        snapshot_max: int | None = None,
        idle_until_ms: int | None = None,
    ) -> ProducerStates:
        """The states at an offset, of the newest valid snapshot before it and the batches from there on.

        aborted: the known aborted transactions up to there, by which the markers after the snapshot are not needed.
        idle_until_ms: producers of the snapshot that have been idle since this time, or longer, have expired.
        snapshot_max: the last offset of a snapshot that is used, the end by default.
        Raises: OSError; as `batches_between`.
        """
        start, states = self._read_newest(end_offset if snapshot_max is None else min(end_offset, snapshot_max))
        earlier = [entry for entry in aborted if entry.last_offset < start]
        producers = ProducerStates.restored(states, earlier)
        if idle_until_ms is not None:
            producers.remove_idle(idle_until_ms)
        producers.replay_batches(batches_between(start, end_offset))
        return producers

    def find_newest(self, end_offset: int) -> int:
        """The offset of the newest valid snapshot, 0 without one. Raises: OSError."""
        return self._read_newest(end_offset)[0]

    def _read_newest(self, end_offset: int) -> tuple[int, list[ProducerState]]:
        for offset in reversed(self._offsets()):
            name = names.file_name(offset, names.SNAPSHOT)
            data = self._folders.files.read_file(self._folders.path(name)) if offset <= end_offset else None
            if data is None:
                continue
            try:
                return offset, producer_snapshots.read_snapshot(data, self._folders.path(name))
            except DamagedFileError as error:
                self._report(f"{error}: built again")
        return 0, []

    def _offsets(self) -> list[int]:
        parsed = map(names.parse_file_name, self._folders.files.list_names(self._folders.first))
        return sorted(found[0] for found in parsed if found is not None and found[1] == names.SNAPSHOT)
