"""Loads the segments of a partition: from their indexes where these can be trusted, else batch by batch.

After a clean shutdown, and after a kill while the machine went on, everything that was written is there: only the end
of each segment is read. After a crash of the machine the segments from the recovery point on are read with their
checksums. Source: Kafka's LogLoader and LogSegment.recover, which read them after each crash.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from kwire.records.batch import HEADER_SIZE
from mockbroker.disk_storage.packed_indexes import PackedIndexes, are_in_order
from mockbroker.disk_storage.replica_folders import ReplicaFolders
from mockbroker.disk_storage.segment_log import FileWindow, SegmentLog
from mockbroker.kafka_error import KafkaError
from mockbroker.log_directory.batch_scan import FieldLimits, scan_batches
from mockbroker.log_directory.formats import names
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.formats.indexes import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from mockbroker.log_directory.recovery import RecoveryOptions, cut_unfinished, remove_segments, segment_offsets
from mockbroker.state.storage.segments import LogSegment

#: So many entries of the offset index are compared with the log: markers of transactions have older timestamps.
_CHECKED_ENTRIES = 8
#: In which the batch of the last entry of the time index is looked for.
_WINDOW = 8 << 10


class LoadOptions(NamedTuple):
    """How a partition is loaded.

    recovery_point: offsets below are on disk and valid. is_clean: all that was written is there, and on disk.
    is_complete: all that was written is there. index_interval: the bytes between entries of an index. repair: cut a log
    at damage that is followed by valid batches; for that each checksum is checked. report: called with a line for each
    thing that was mended. limits: of the fields of batches. idle_until_ms: producers that have been idle since this
    time have expired.
    """

    recovery_point: int
    is_clean: bool
    is_complete: bool
    index_interval: int
    repair: bool
    report: Callable[[str], None]
    now_ms: int
    limits: FieldLimits
    idle_until_ms: int | None = None

    @property
    def trusts_indexes(self) -> bool:
        """Whether segments are read from their last index entry on, without checksums."""
        return self.is_complete and not self.repair

    @property
    def recovery(self) -> RecoveryOptions:
        """The options for cutting segments."""
        return RecoveryOptions(self.recovery_point, self.index_interval, self.repair, self.report)


class LoadedSegments(msgspec.Struct):
    """The segments in order.

    rebuilt: those whose index files have to be written. epochs: those of the batches that were read.
    """

    segments: list[SegmentLog] = msgspec.field(default_factory=list)
    end_offset: int = 0
    rebuilt: list[SegmentLog] = msgspec.field(default_factory=list)
    epochs: list[tuple[int, int]] = msgspec.field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.meta.size for segment in self.segments)


def load_segments(folders: ReplicaFolders, options: LoadOptions) -> LoadedSegments:
    """Load the segments of the first folder.

    Raises: DamagedFileError for damage before valid batches, unless `repair` is set; OSError.
    """
    found = LoadedSegments()
    base_offsets = segment_offsets(folders.files, folders.first)
    for number, base_offset in enumerate(base_offsets):
        later = base_offsets[number + 1 :]
        if _SegmentLoader(folders, base_offset, later[0] if later else None, options, found).load():
            remove_segments(folders.files, folders.first, later, options.report)
            break
    return found


class _SegmentLoader:
    """Loads one segment. next_base: where the next one begins, None for the last one."""

    def __init__(
        self,
        folders: ReplicaFolders,
        base_offset: int,
        next_base: int | None,
        options: LoadOptions,
        found: LoadedSegments,
    ) -> None:
        self._folders = folders
        self._options = options
        self._next_base = next_base
        self._found = found
        self._meta = LogSegment(base_offset, options.now_ms, options.now_ms)
        self._use_indexes(PackedIndexes(base_offset, options.index_interval))
        self._path = folders.path(self._segment.name(names.LOG))
        self._claimed_end = 0

    def load(self) -> bool:
        """Add the segment to those that were found; returns whether its end was cut."""
        options = self._options
        is_certain = self._next_base is not None and self._next_base <= options.recovery_point
        is_trusted = options.trusts_indexes or (is_certain and not options.repair)
        position = self._load_indexes() if is_trusted else None
        is_cut = self._scan(position or 0, verify=not is_trusted)
        if position is not None and self._next_base is not None and not is_cut and self._is_index_short():
            position, is_cut = None, self._rebuild()
        if not is_trusted and self._next_base is not None:
            read, path = self._folders.files.read_file, self._folders.path
            offsets, times = (read(path(self._segment.name(one))) for one in (names.OFFSET_INDEX, names.TIME_INDEX))
            self._claimed_end = _find_claimed_end(self._meta.base_offset, offsets or b"", times or b"")
        self._check_claims()
        if not (is_certain or options.is_clean):
            # The process before may have failed to write them to the disk: then a sync alone would not do it.
            self._segment.mark_unwritten(options.recovery_point)
        if position is None:
            self._found.rebuilt.append(self._segment)
        if self._next_base is not None and not is_cut:
            self._check_end(self._next_base)
            self._found.end_offset = self._next_base
            if position is not None:
                self._segment.drop_cached()
        self._read_first_timestamp()
        self._found.segments.append(self._segment)
        return is_cut

    def _load_indexes(self) -> int | None:
        """Read the index files; returns the position of the last indexed batch, None if they have to be built again."""
        base, files = self._meta.base_offset, self._folders.files
        size = self._folders.open_files.find_file(self._path).size
        data: list[bytes] = []
        for suffix, entry_size in ((names.OFFSET_INDEX, OFFSET_ENTRY_SIZE), (names.TIME_INDEX, TIME_ENTRY_SIZE)):
            path = self._folders.path(self._segment.name(suffix))
            content = files.read_file(path)
            if content is None:
                if self._next_base is not None:
                    self._options.report(f"{path}: missing, built again")
                return None
            data.append(_without_zeros(content, entry_size))
        offsets, times = data
        is_whole = not (len(offsets) % OFFSET_ENTRY_SIZE or len(times) % TIME_ENTRY_SIZE)
        packed = PackedIndexes(base, self._options.index_interval, *(data if is_whole else ()))
        self._meta.size = size
        segment = SegmentLog(self._folders, self._meta, packed)
        if not (is_whole and _are_valid(packed, segment)):
            self._options.report(f"{self._folders.path(self._segment.name(names.OFFSET_INDEX))}: invalid, built again")
            self._meta.size = 0
            self._claimed_end = _find_claimed_end(base, *data)
            return None
        self._use_indexes(packed)
        time = packed.last_time
        self._meta.max_timestamp = -1 if time is None else time.timestamp
        last = packed.last_indexed
        return 0 if last is None else last.position

    def _scan(self, position: int, *, verify: bool) -> bool:
        """Read the batches from a position on; returns whether the end was cut."""
        base, meta, found = self._meta.base_offset, self._meta, self._found
        file = self._folders.open_files.find_file(self._path)
        next_offset, meta.size, add = base, position, self._packed.add_batch
        epoch = found.epochs[-1][0] if found.epochs else -1
        try:
            limits = self._options.limits
            for at, batch in scan_batches(
                file, self._path, first_offset=base, position=position, verify=verify, limits=limits
            ):
                size, timestamp = batch.size, batch.max_timestamp
                next_offset = batch.last_offset + 1
                add(at, size, next_offset - 1, timestamp)
                meta.add_batch(size, timestamp)
                if batch.partition_leader_epoch > epoch:
                    epoch = batch.partition_leader_epoch
                    found.epochs.append((epoch, batch.base_offset))
        except DamagedFileError as error:
            has_later = self._next_base is not None
            cut_unfinished(file, self._path, error, next_offset, has_later=has_later, options=self._options.recovery)
            found.end_offset = next_offset
            return True
        found.end_offset = next_offset
        return False

    def _check_claims(self) -> None:
        """Raises: DamagedFileError for a log that ends before a batch that both of its indexes have."""
        end = self._found.end_offset
        if end >= self._claimed_end:
            return
        problem = f"the log ends at offset {end}, and its index files have offset {self._claimed_end - 1}"
        if not self._options.repair:
            raise DamagedFileError(self._path, self._meta.size, f"{problem}; --repair goes on with what is there")
        self._options.report(f"{self._path}: {problem}")

    def _is_index_short(self) -> bool:
        """Whether the batches behind the last entry of a closed segment would have had entries of their own."""
        packed, time = self._packed, self._packed.last_time
        has_newer = self._meta.max_timestamp > (-1 if time is None else time.timestamp)
        return has_newer or len(packed.offsets) > self._read_size

    def _rebuild(self) -> bool:
        """Read the whole segment; returns whether its end was cut."""
        self._options.report(f"{self._path}: its index files end before it, built again")
        self._use_indexes(PackedIndexes(self._meta.base_offset, self._options.index_interval))
        self._meta.max_timestamp = -1
        return self._scan(0, verify=False)

    def _use_indexes(self, packed: PackedIndexes) -> None:
        self._packed, self._read_size = packed, len(packed.offsets)
        self._segment = SegmentLog(self._folders, self._meta, packed)

    def _check_end(self, next_base: int) -> None:
        """Raises: DamagedFileError for a closed segment that does not reach to the next one, unless `repair` is set."""
        end = self._found.end_offset
        is_missing = end != next_base and not self._options.limits.has_gaps
        if end > next_base or (is_missing and not self._options.repair):
            problem = f"it ends at offset {end}, and the next segment begins at {next_base}"
            raise DamagedFileError(self._path, self._meta.size, problem)
        if is_missing:
            self._options.report(f"{self._path}: offsets {end} to {next_base - 1} are missing")

    def _read_first_timestamp(self) -> None:
        if not self._meta.size:
            return
        window = FileWindow(self._segment, 0, min(HEADER_SIZE, self._meta.size))
        try:
            first = window.batch_at(0)
        except KafkaError as error:
            raise DamagedFileError(self._path, 0, "no valid batch") from error
        if first is not None:
            self._meta.first_timestamp = first.max_timestamp


def _find_claimed_end(base_offset: int, offsets: bytes, times: bytes) -> int:
    """The offset behind the last batch that both index files of a segment have, 0 if one is empty or damaged."""
    if not are_in_order(offsets, times):
        return 0
    packed = PackedIndexes(base_offset, 0, offsets, times)
    last, time = packed.last_indexed, packed.last_time
    return 0 if last is None or time is None else min(last.offset, time.offset) + 1


def _without_zeros(content: bytes, entry_size: int) -> bytes:
    """The entries of an index file; that of a broker that was killed ends with zeros."""
    if content[-entry_size:].strip(b"\0"):
        return content
    size = len(content.rstrip(b"\0"))
    return content[: -(-size // entry_size) * entry_size]


def _are_valid(packed: PackedIndexes, segment: SegmentLog) -> bool:
    """Return whether the last entries are of batches in the file."""
    time = packed.last_time
    try:
        for entry in packed.last_entries(_CHECKED_ENTRIES):
            if not 0 <= entry.position <= segment.meta.size - HEADER_SIZE:
                return False
            batch = FileWindow(segment, entry.position, HEADER_SIZE).batch_at(entry.position)
            if batch is None or batch.last_offset != entry.offset:
                return False
            if batch.max_timestamp > (-1 if time is None else time.timestamp):
                return False  # With an entry of the offset index, the largest timestamp has one of the time index.
        if time is None:
            return True
        batches = segment.scan(packed.find_position(time.offset), window_size=_WINDOW)
        newest = next((batch for batch in batches if batch.last_offset >= time.offset), None)
    except KafkaError:
        return False
    return newest is not None and newest.max_timestamp == time.timestamp
