"""`SimulatedDisk`: the data directory of a simulated cluster, on files in memory with faults and crashes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from random import Random
from typing import NamedTuple

from mockbroker.disk_storage.data_directory import DataDirectory, DirectoryOptions
from mockbroker.log_directory.simulated_files import FileFault, SimulatedFiles
from mockbroker.metadata_log.stored_cluster import StoredCluster

#: Snapshots of the metadata log are written after so many bytes.
_SNAPSHOT_AFTER_BYTES = 6_000
#: A disk that gets full has so many bytes left at most.
_SPACE_MAX = 3_000
_COUNTED = {
    FileFault.WRITE_FAILS: "write failed",
    FileFault.SHORT_WRITE: "short write",
    FileFault.SYNC_FAILS: "sync failed",
    FileFault.BIT_FLIPS: "bit flipped",
    None: "disk full",
}


class _Rate(NamedTuple):
    """Faults, and the share of calls that they happen to. is_full: there is hardly any space left."""

    faults: tuple[FileFault, ...] = ()
    share: float = 0.0
    is_full: bool = False


class DiskConditions(Enum):
    """What the disk does until the conditions change. Bits flip in logs only: other files have no checksums."""

    GOOD = _Rate()
    BAD_WRITES = _Rate((FileFault.WRITE_FAILS, FileFault.SHORT_WRITE), 0.2)
    NO_WRITES = _Rate((FileFault.WRITE_FAILS,), 1)
    BAD_SYNCS = _Rate((FileFault.SYNC_FAILS,), 0.5)
    BAD_READS = _Rate((FileFault.BIT_FLIPS,), 0.2)
    FULL = _Rate(is_full=True)


class ProcessEnd(Enum):
    """How a process ends: cleanly, killed, or with its machine, which loses what was not synced."""

    CLEAN = "process ended"
    KILLED = "process killed"
    CRASHED = "machine crashed"


class SimulatedDisk:
    """The files, their conditions, and the open data directory.

    fsync: acknowledgements wait for the disk; otherwise a machine that crashes may lose them. lines: what was reported
    at starts. has_flipped_bits: this process has read damaged bytes, which may be in its memory. calls_left: calls of
    the file system until the process ends in the middle of one, None: it does not.
    """

    def __init__(self, rng: Random, count: Callable[[str], None], *, fsync: bool) -> None:
        self.fsync = fsync
        self.lines: list[str] = []
        self.calls_left: int | None = None
        self._rng = rng
        self._conditions = DiskConditions.GOOD
        self._is_used = False
        self._capacity: int | None = None
        self.has_flipped_bits = False
        self._boot = 0
        self.stored: StoredCluster | None = None
        self._count = count
        self.files = SimulatedFiles(rng, choose_fault=self._choose_fault, on_fault=self._record_fault)

    def set_conditions(self, conditions: DiskConditions) -> None:
        """Change the conditions."""
        self._conditions = conditions
        is_full = conditions.value.is_full
        self._capacity = self.files.used + self._rng.randrange(_SPACE_MAX) if is_full else None

    @contextmanager
    def in_broker(self) -> Iterator[None]:
        """The broker uses the disk, which can fail; what checks and simulated clients read is right."""
        self._is_used, before = True, self._is_used
        self.files.capacity = self._capacity
        try:
            yield
        finally:
            self._is_used = before
            self.files.capacity = self._capacity if before else None

    def open_cluster(self, node_ids: Iterable[int]) -> StoredCluster:
        """Open the data directory. Raises: DamagedFileError, MetadataLogError."""
        options = DirectoryOptions(fsync=self.fsync, report=self.lines.append)
        directory = DataDirectory(self.files, node_ids, options, boot_id=f"boot-{self._boot}")
        self.stored = StoredCluster(directory, Path("data"), snapshot_after=_SNAPSHOT_AFTER_BYTES)
        return self.stored

    def end_process(self, how: ProcessEnd, close_logs: Callable[[], None]) -> None:
        """End the process. close_logs: closes the logs of topics, at a clean end. Raises: ProcessEnded."""
        if how is ProcessEnd.CLEAN and self.stored is not None:
            self.stored.close(close_logs)
        self.calls_left = None
        self.has_flipped_bits = False
        if how is ProcessEnd.CRASHED:
            self._boot += 1
            left = self.files.crash_machine()
            self.files.kill_process()
            self.files = left
        else:
            self.files = self.files.kill_process()

    def _record_fault(self, fault: FileFault | None) -> None:
        self._count(_COUNTED[fault])
        self.has_flipped_bits = self.has_flipped_bits or fault is FileFault.BIT_FLIPS

    def _choose_fault(self, path: str) -> FileFault | None:
        if not self._is_used:
            return None
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                return FileFault.PROCESS_ENDS
        faults, share, _ = self._conditions.value
        if not faults or self._rng.random() >= share:
            return None
        fault = self._rng.choice(faults)
        return None if fault is FileFault.BIT_FLIPS and not path.endswith(".log") else fault
