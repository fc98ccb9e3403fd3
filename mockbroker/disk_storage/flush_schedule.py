"""`FlushSchedule`: when logs are synced, and when checkpoints are written.

Source: Kafka's LogManager (flushDirtyLogs, checkpointLogRecoveryOffsets, checkpointLogStartOffsets) and ReplicaManager
(checkpointHighWatermarks).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from mockbroker.state.storage.log_config import NEVER, FlushRules
from mockbroker.state.storage.partition_log import PartitionLog

#: After a failure, syncs and checkpoints are tried again after so many milliseconds.
_RETRY_MS = 1_000


class CheckpointIntervals(msgspec.Struct, frozen=True):
    """How often checkpoints are written, in milliseconds."""

    recovery_points_ms: int = 60_000
    high_watermarks_ms: int = 5_000


class FlushedLog(Protocol):
    """The files of one log."""

    @property
    def log(self) -> PartitionLog:
        """The log that these are the files of."""

    def sync(self) -> None:
        """Return when all batches are on the disk. Raises: OSError."""

    def sync_closed(self) -> None:
        """Return when all segments but the active one are on the disk. Raises: OSError."""

    def finish_swap(self) -> None:
        """Have the files of compacted segments take the names of those that they replace. Raises: OSError."""

    def write_mark(self) -> None:
        """Write the indexes and producers up to here. Raises: OSError."""


class FlushSchedule:
    """Deadlines of all logs. fsync: appended batches are synced at once, and not before that acknowledged.

    write_checkpoints: writes all checkpoint files of the logs. report: called with a line for a failure.
    """

    def __init__(
        self,
        intervals: CheckpointIntervals,
        write_checkpoints: Callable[[], None],
        report: Callable[[str], None],
        *,
        fsync: bool,
    ) -> None:
        self._intervals = intervals
        self._write_checkpoints = write_checkpoints
        self._report = report
        self.fsync = fsync
        self._next_ms: int | None = None
        self._checkpoint_ms: int | None = None
        self._closed_ms: int | None = None
        # Logs with a segment that was closed since the last sync of closed segments, and before that.
        self._rolled: dict[FlushedLog, None] = {}
        self._rolled_before: dict[FlushedLog, None] = {}
        self._grown: dict[FlushedLog, None] = {}
        self._swapping: dict[FlushedLog, int] = {}
        self._sync_ms: dict[FlushedLog, int] = {}
        self._is_start_moved = False

    def mark_appended(self, files: FlushedLog, base_offset: int, flush: FlushRules | None, *, now_ms: int) -> None:
        """A batch was appended at an offset; its log still ends before it."""
        if self._checkpoint_ms is None:
            self._checkpoint_ms = now_ms + self._intervals.high_watermarks_ms
            self._set_due(self._checkpoint_ms)
        if self.fsync:
            if files not in self._sync_ms:
                files.log.hold_unsynced(base_offset)
                self._sync_ms[files] = now_ms
                self._set_due(now_ms)
        elif flush is not None and flush.interval_max_ms != NEVER and files not in self._sync_ms:
            self._sync_ms[files] = now_ms + flush.interval_max_ms
            self._set_due(self._sync_ms[files])

    def sync_now(self, files: FlushedLog) -> None:
        """Sync a log that acknowledgements wait for, before its time. Raises: OSError; then it is tried again."""
        if self.fsync and files in self._sync_ms:
            files.sync()
            del self._sync_ms[files]
            files.log.hold_unsynced(None)

    def mark_grown(self, files: FlushedLog) -> None:
        """So much was appended to the active segment that its indexes should be written."""
        self._grown[files] = None
        self._set_due(0)

    def mark_swapping(self, files: FlushedLog) -> None:
        """Compacted segments replace others from now on."""
        self._swapping[files] = 0
        self._set_due(0)

    def mark_rolled(self, files: FlushedLog, *, is_large: bool, now_ms: int) -> None:
        """A segment was closed. It is synced later, when the system has written most of it.

        is_large: the checkpoints are written at once, so that the next start does not read it again.
        """
        if is_large:
            self.mark_changed()
        self._rolled[files] = None
        if self._closed_ms is None:
            self._closed_ms = now_ms + self._intervals.recovery_points_ms
            self._set_due(self._closed_ms)

    def mark_changed(self) -> None:
        """The start of a log has moved, or it was compacted: the checkpoints are written at once."""
        self._is_start_moved = True
        self._set_due(0)

    def forget(self, files: FlushedLog) -> None:
        """A log is deleted."""
        for logs in (self._rolled, self._rolled_before, self._grown):
            logs.pop(files, None)
        self._sync_ms.pop(files, None)
        self._swapping.pop(files, None)

    def next_deadline_ms(self) -> int | None:
        """When there is something to do, or None."""
        return self._next_ms

    def expire(self, *, now_ms: int) -> None:
        """Sync and write what is due."""
        if self._next_ms is None or self._next_ms > now_ms:
            return
        for files in [files for files, due_ms in self._sync_ms.items() if due_ms <= now_ms]:
            self._sync_log(files, now_ms)
        grown, self._grown = self._grown, {}
        for files in grown:
            self._is_start_moved |= self._try(files.write_mark)
        for files in [files for files, due_ms in self._swapping.items() if due_ms <= now_ms]:
            del self._swapping[files]
            if not self._try(files.finish_swap):
                self._swapping[files] = now_ms + _RETRY_MS
        if self._closed_ms is not None and self._closed_ms <= now_ms:
            self._sync_closed(now_ms)
        if self._is_start_moved or (self._checkpoint_ms is not None and self._checkpoint_ms <= now_ms):
            self._is_start_moved, self._checkpoint_ms = False, None
            if not self._try(self._write_checkpoints):
                self._checkpoint_ms = now_ms + _RETRY_MS
        dues = [*self._sync_ms.values(), *self._swapping.values(), self._closed_ms, self._checkpoint_ms]
        self._next_ms = min((due_ms for due_ms in dues if due_ms is not None), default=None)

    def _sync_log(self, files: FlushedLog, now_ms: int) -> None:
        try:
            files.sync()
        except OSError as error:
            self._report(f"cannot write to the disk: {error}; producers get KAFKA_STORAGE_ERROR")
            self._sync_ms[files] = now_ms + _RETRY_MS
            files.log.fail_sync()
            return
        del self._sync_ms[files]
        files.log.hold_unsynced(None)

    def _sync_closed(self, now_ms: int) -> None:
        for files in self._rolled_before:
            if self._try(files.sync_closed):
                self._is_start_moved = True
        self._rolled_before, self._rolled = self._rolled, {}
        self._closed_ms = now_ms + self._intervals.recovery_points_ms if self._rolled_before else None

    def _try(self, action: Callable[[], None]) -> bool:
        """Return whether the action had success; a failure is reported."""
        try:
            action()
        except OSError as error:
            self._report(f"cannot write to the disk: {error}; it is tried again")
            return False
        return True

    def _set_due(self, due_ms: int) -> None:
        if self._next_ms is None or due_ms < self._next_ms:
            self._next_ms = due_ms
