"""Opening a metadata log: the newest snapshot and the batches behind it become the image that they lead to.

An unfinished last write is cut off; other damage is an error, or is cut off with everything behind it (`repair`).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kwire.messages.k_raft_version_record import KRaftVersionRecord
from mockbroker.log_directory.batch_scan import ScannedBatch, find_batch_behind, is_whole_batch, scan_batches
from mockbroker.log_directory.file_layer import FileLayer
from mockbroker.log_directory.formats.checkpoints import LEADER_EPOCHS
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.formats.names import LOG, TEMPORARY, file_name, parse_file_name
from mockbroker.metadata_log.batches import read_messages
from mockbroker.metadata_log.image import MetadataImage
from mockbroker.metadata_log.snapshots import SnapshotId, parse_snapshot_name, read_snapshot
from mockbroker.metadata_log.tables import MetadataLogError

#: More elections in a row do not fail to write anything.
_EPOCHS_SKIPPED_MAX = 10_000
#: In the folder after a clean end: the offset where the log ended.
CLEAN_END = ".mockbroker-end"


class LoadedLog(msgspec.Struct):
    """What a folder contains.

    end_offset: of the next record. segments: the base offsets of the files that are in use, ascending. snapshot: the
    newest one, None without one, and its size in bytes. log_bytes: of the records behind it. timestamp: of the last
    record, milliseconds. epochs: with the offsets at which they start.
    """

    image: MetadataImage
    end_offset: int = 0
    segments: list[int] = msgspec.field(default_factory=list)
    snapshot: SnapshotId | None = None
    snapshot_size: int = 0
    log_bytes: int = 0
    timestamp: int = -1
    kraft_version: int = 0
    epochs: list[tuple[int, int]] = msgspec.field(default_factory=list)

    @property
    def epoch(self) -> int:
        """The epoch of the last record, 0 without one."""
        return self.epochs[-1][0] if self.epochs else 0

    def add_epoch(self, epoch: int, offset: int) -> None:
        """Note the epoch of the records from an offset on."""
        if epoch > self.epoch:
            self.epochs.append((epoch, offset))


def load_log(files: FileLayer, folder: str, *, repair: bool, report: Callable[[str], None]) -> LoadedLog:
    """Read a folder, which may be empty.

    report: is called with a line for everything that was mended.
    Raises: DamagedFileError with file and byte; MetadataLogError for records that this release does not read, or that
    do not fit those before them; OSError.
    """
    return _Loader(files, folder, repair=repair, report=report).load()


class _Loader:
    def __init__(self, files: FileLayer, folder: str, *, repair: bool, report: Callable[[str], None]) -> None:
        self._files = files
        self._folder = folder
        self._repair = repair
        self._report = report
        self._loaded = LoadedLog(MetadataImage())
        #: The end of what the log has; the snapshot may have more.
        self._log_end = 0

    def load(self) -> LoadedLog:
        loaded = self._loaded
        names = self._files.list_names(self._folder)
        for name in [name for name in names if name.endswith(TEMPORARY)]:
            self._files.remove(self._path(name))
        snapshots = sorted(one for one in map(parse_snapshot_name, names) if one is not None)
        if snapshots:
            self._load_snapshot(snapshots[-1])
        bases = [found[0] for found in map(parse_file_name, names) if found is not None and found[1] == LOG]
        # The snapshot has everything of the segments before the one in which it ends.
        start = loaded.end_offset
        bases = [base for at, base in enumerate(bases) if at + 1 == len(bases) or bases[at + 1] > start]
        for at, base in enumerate(bases):
            if not self._load_segment(base, later=bases[at + 1 :]):
                break
        if self._log_end < start:
            # The end of the log was not on the disk, that of the snapshot was: the next segment begins behind it.
            for base in loaded.segments:
                self._remove(base)
            loaded.segments = []
        if loaded.snapshot is not None:
            loaded.add_epoch(loaded.snapshot.epoch, loaded.snapshot.end_offset)
        self._check_end(names)
        return loaded

    def _check_end(self, names: list[str]) -> None:
        """Check that nothing is missing at the end, as far as that is known. Raises: DamagedFileError."""
        end, path, problem = self._loaded.end_offset, self._path(CLEAN_END), None
        mark = self._files.read_file(path)
        if mark is not None and mark != b"%d" % end:
            problem = f"the log ends at offset {end}, and ended at {mark[:20].decode(errors='replace')!r}"
        elif not end and LEADER_EPOCHS in names:
            problem = f"no log is there, and {LEADER_EPOCHS} is"
        if problem is not None and not self._repair:
            raise DamagedFileError(path if end else self._path(file_name(0, LOG)), None, problem)
        if problem is not None:
            self._report(f"{path}: {problem}")

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _load_snapshot(self, snapshot: SnapshotId) -> None:
        path, loaded = self._path(snapshot.file_name), self._loaded
        data = self._files.read_file(path) or b""
        content = read_snapshot(data, path)
        if content.problem is not None:
            if not self._repair:
                raise content.problem
            self._report(f"{content.problem}; repaired: the records before it are used")
        for message in content.messages:
            self._apply(message.message, path, message.offset)
        loaded.snapshot, loaded.snapshot_size, loaded.end_offset = snapshot, len(data), snapshot.end_offset
        loaded.kraft_version, loaded.timestamp = content.kraft_version, content.timestamp

    def _load_segment(self, base: int, *, later: list[int]) -> bool:
        """Read a segment. Returns: whether the next one is to be read too."""
        path, loaded = self._path(file_name(base, LOG)), self._loaded
        if base > max(self._log_end, loaded.end_offset):
            problem = f"it begins at offset {base}, and the records before it end at {loaded.end_offset}"
            self._mend(DamagedFileError(path, 0, problem), [base, *later])
            return False
        self._log_end = base
        loaded.segments.append(base)
        file = self._files.open_file(path)
        try:
            for scanned in scan_batches(file, path, first_offset=base):
                self._load_batch(scanned, path)
        except DamagedFileError as error:
            position = error.position or 0
            cut = f"{file.size - position} bytes of it are cut off"
            is_finished = bool(later) or is_whole_batch(file, position)
            if not is_finished and find_batch_behind(file, position, first_offset=self._log_end) is None:
                self._report(f"{path}, byte {position}: the last write was not finished; {cut}")
            else:
                self._mend(error, later, cut)
            file.truncate(position)
            return False
        finally:
            file.close()
        return True

    def _mend(self, error: DamagedFileError, segments: list[int], change: str = "it is deleted") -> None:
        """Delete segments behind damage. Raises: the error, unless the log is to be repaired."""
        if not self._repair:
            raise error
        for base in segments:
            self._remove(base)
        self._report(f"{error}; repaired: {change}, and {len(segments)} segments with it")

    def _remove(self, base: int) -> None:
        self._files.remove(self._path(file_name(base, LOG)))

    def _load_batch(self, scanned: ScannedBatch, path: str) -> None:
        loaded, batch = self._loaded, scanned.batch
        if batch.base_offset != self._log_end:
            problem = f"a batch at offset {batch.base_offset}; expected {self._log_end}"
            raise DamagedFileError(path, scanned.position, problem)
        self._check_epoch(scanned, path)
        self._log_end = batch.last_offset + 1
        loaded.add_epoch(batch.partition_leader_epoch, batch.base_offset)
        if self._log_end <= loaded.end_offset:
            return  # The snapshot has it.
        where = f"{path}, byte {scanned.position}"
        try:
            messages = list(read_messages(batch))
        except MetadataLogError as error:
            raise MetadataLogError(f"{where}: {error}") from error
        for message in messages:
            if isinstance(message.message, KRaftVersionRecord):
                loaded.kraft_version = message.message.k_raft_version
            elif not batch.is_control and message.offset >= loaded.end_offset:
                self._apply(message.message, where, message.offset)
        loaded.end_offset, loaded.timestamp = self._log_end, batch.max_timestamp
        loaded.log_bytes += batch.size

    def _check_epoch(self, scanned: ScannedBatch, path: str) -> None:
        """Check the epoch of a batch, which no checksum covers: it begins with a control record of the new leader.

        Raises: DamagedFileError.
        """
        epoch, before = scanned.batch.partition_leader_epoch, self._loaded.epoch
        if not self._loaded.epochs and self._loaded.snapshot is not None:
            before = self._loaded.snapshot.epoch
            is_next = before - _EPOCHS_SKIPPED_MAX <= epoch <= before + _EPOCHS_SKIPPED_MAX
        elif scanned.batch.is_control or not self._loaded.epochs:
            is_next = before <= epoch <= before + _EPOCHS_SKIPPED_MAX
        else:
            is_next = epoch == before
        if not is_next:
            raise DamagedFileError(path, scanned.position, f"a batch of epoch {epoch} after one of {before}")

    def _apply(self, message: msgspec.Struct, where: str, offset: int) -> None:
        try:
            self._loaded.image.apply(message)
        except MetadataLogError as error:
            if not self._repair:
                raise MetadataLogError(f"{where}: offset {offset}: {error}") from error
            self._report(f"{where}: offset {offset}: {error}; repaired: the record is left out")
