"""Opens the folder of a partition: finishes interrupted replacements, and checks what may not have been on disk.

After a clean shutdown nothing is checked. Otherwise the segments from the recovery point on are read with their
checksums: an unfinished write at the end is cut; damage before valid batches is refused, since batches that were
acknowledged would be lost, unless `repair` allows to cut the log there. Source: Kafka's LogLoader and
LogSegment.recover, which always cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from kwire.errors import WireError
from mockbroker.kafka_error import KafkaError
from mockbroker.log_directory.batch_scan import find_batch_behind, is_whole_batch, scan_batches
from mockbroker.log_directory.file_layer import FileLayer, OpenFile
from mockbroker.log_directory.formats import checkpoints, indexes, names, producer_snapshots
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.segment_file import SegmentFile
from mockbroker.state.storage.producers import AbortedTransaction, ProducerStates
from mockbroker.state.storage.stored_batch import StoredBatch

_SWAPPED_LOG = names.LOG + names.SWAP


class RecoveryOptions(NamedTuple):
    """How a partition is opened.

    recovery_point: offsets below are on disk and valid; None after a clean shutdown, when all are. index_interval: the
    bytes between entries of an index. repair: cut a log at damage that is followed by valid batches. report: called
    with a line for each thing that was mended.
    """

    recovery_point: int | None
    index_interval: int
    repair: bool
    report: Callable[[str], None]


class LoadedSegment(msgspec.Struct, frozen=True):
    """A segment and its batches in order, whose bytes are read from the file when they are used."""

    segment: SegmentFile
    batches: list[StoredBatch]

    @property
    def end_offset(self) -> int:
        """The offset after its last batch."""
        return self.batches[-1].last_offset + 1 if self.batches else self.segment.base_offset


class LoadedLog(NamedTuple):
    """A partition's log as it is on disk; the last segment is the active one."""

    segments: list[LoadedSegment]
    producers: ProducerStates
    leader_epochs: list[tuple[int, int]]

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self.segments[-1].end_offset if self.segments else 0


def load_partition(files: FileLayer, folder: str, options: RecoveryOptions) -> LoadedLog:
    """Open the folder of a partition.

    Raises: DamagedFileError for damage before valid batches, with the file and the position, unless `repair` is set.
    OSError.
    """
    finish_replacements(files, folder, options.report)
    base_offsets = segment_offsets(files, folder)
    segments: list[LoadedSegment] = []
    try:
        for number, base_offset in enumerate(base_offsets):
            loaded, is_cut = _load_segment(files, folder, base_offset, base_offsets[number + 1 :], options)
            segments.append(loaded)
            if is_cut:
                remove_segments(files, folder, base_offsets[number + 1 :], options.report)
                break
        end_offset = segments[-1].end_offset if segments else 0
        producers = _load_producers(files, folder, segments, end_offset, options)
        return LoadedLog(segments, producers, _load_leader_epochs(files, folder, segments, end_offset, options))
    except (DamagedFileError, OSError):
        for loaded in segments:
            loaded.segment.file.close()
        raise


def finish_replacements(files: FileLayer, folder: str, report: Callable[[str], None]) -> None:
    """Remove what was not in use any more or not yet, and finish replacing segments by compacted ones.

    A `.swap` file is complete, and the segments that it replaces may be removed already.
    """
    found = files.list_names(folder)
    for name in found:
        if name.endswith((names.DELETED, names.CLEANED, names.TEMPORARY)):
            files.remove(f"{folder}/{name}")
    swaps = [name for name in found if name.endswith(_SWAPPED_LOG)]
    for name in swaps:
        parsed = names.parse_file_name(name.removesuffix(names.SWAP))
        if parsed is None:
            continue
        file = files.open_file(f"{folder}/{name}")
        scanned = scan_batches(file, f"{folder}/{name}", first_offset=parsed[0], verify=False)
        end_offset = max((batch.last_offset for _, batch in scanned), default=parsed[0]) + 1
        file.close()
        replaced = [offset for offset in segment_offsets(files, folder) if parsed[0] <= offset < end_offset]
        remove_segments(files, folder, replaced, report, keep_snapshots=True)
        files.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(names.SWAP)}")
        report(f"{folder}/{name}: finished replacing {len(replaced)} segments")
    for name in files.list_names(folder):
        if name.endswith(names.SWAP):
            files.remove(f"{folder}/{name}")


def segment_offsets(files: FileLayer, folder: str) -> list[int]:
    """The base offsets of the segments with a log file, in order."""
    parsed = map(names.parse_file_name, files.list_names(folder))
    return sorted(found[0] for found in parsed if found is not None and found[1] == names.LOG)


def remove_segments(
    files: FileLayer,
    folder: str,
    base_offsets: Sequence[int],
    report: Callable[[str], None],
    *,
    keep_snapshots: bool = False,
) -> None:
    """Remove the files of segments: of compacted ones without their snapshots, and without a report."""
    suffixes = (*names.INDEXES, names.LOG) if keep_snapshots else (*names.INDEXES, names.SNAPSHOT, names.LOG)
    for base_offset in base_offsets:
        for suffix in suffixes:
            files.remove(f"{folder}/{names.file_name(base_offset, suffix)}")
        if not keep_snapshots:
            report(f"{folder}/{names.file_name(base_offset, names.LOG)}: removed, it is behind a cut")


def _load_segment(
    files: FileLayer, folder: str, base_offset: int, later: Sequence[int], options: RecoveryOptions
) -> tuple[LoadedSegment, bool]:
    """Read a segment; returns it and whether its end was cut. Raises: DamagedFileError."""
    segment = SegmentFile(files, folder, base_offset, index_interval=options.index_interval)
    path = segment.path(names.LOG)
    # The end of a segment is where the next one begins; with a point in it or before, it may be damaged.
    is_certain = options.recovery_point is None or (bool(later) and later[0] <= options.recovery_point)
    batches: list[StoredBatch] = []
    is_cut = False
    try:
        for position, batch in scan_batches(segment.file, path, first_offset=base_offset, verify=not is_certain):
            segment.index.add_batch(position, batch.size, batch.last_offset, batch.max_timestamp)
            batches.append(
                StoredBatch(
                    base_offset=batch.base_offset,
                    last_offset=batch.last_offset,
                    size=batch.size,
                    chunk=segment.bytes,
                    at=position,
                    max_timestamp=batch.max_timestamp,
                    leader_epoch=batch.partition_leader_epoch,
                )
            )
    except DamagedFileError as error:
        next_offset = batches[-1].last_offset + 1 if batches else base_offset
        try:
            cut_unfinished(segment.file, path, error, next_offset, has_later=bool(later), options=options)
        except DamagedFileError:
            segment.file.close()
            raise
        is_cut = True
    _check_indexes(files, segment, options)
    return LoadedSegment(segment, batches), is_cut


def cut_unfinished(
    file: OpenFile,
    path: str,
    error: DamagedFileError,
    next_offset: int,
    *,
    has_later: bool,
    options: RecoveryOptions,
) -> None:
    """Cut what is left of an unfinished write. Raises: DamagedFileError if it is something else."""
    position = error.position or 0
    if not options.repair:
        _refuse_finished(file, path, error, next_offset, has_later=has_later, recovery_point=options.recovery_point)
    lost = file.size - position
    file.truncate(position)
    file.sync()  # After a crash of the machine, the bytes would be there again, before segments that follow then.
    options.report(f"{path}: cut {lost} bytes from byte {position} on, offset {next_offset}: {error.problem}")


def _refuse_finished(
    file: OpenFile,
    path: str,
    error: DamagedFileError,
    next_offset: int,
    *,
    has_later: bool,
    recovery_point: int | None,
) -> None:
    """Raises: DamagedFileError where bytes from damage on are not what is left of an unfinished last write."""
    position = error.position or 0
    behind = find_batch_behind(file, position, first_offset=next_offset)
    reason = None
    if behind is not None:
        reason = f"a valid batch follows at byte {behind}, which --repair would remove too"
    elif has_later:
        reason = "another segment follows, which --repair would remove too"
    elif recovery_point is not None and next_offset < recovery_point:
        reason = f"offsets below {recovery_point} were on the disk; --repair would end the log at {next_offset}"
    elif is_whole_batch(file, position):
        reason = "its checksum is right, so that it was written as a whole; --repair would remove it"
    if reason is not None:
        raise DamagedFileError(path, position, f"{error.problem}; {reason}")


def _check_indexes(files: FileLayer, segment: SegmentFile, options: RecoveryOptions) -> None:
    """Report an index file that is not what the batches give; all are written again when the segment is closed.

    Entries of a Kafka with another interval are valid as well.
    """
    if options.recovery_point is not None:
        return  # Index files of segments that were not closed do not exist, or are incomplete.
    for suffix, read in ((names.OFFSET_INDEX, indexes.read_offset_index), (names.TIME_INDEX, indexes.read_time_index)):
        path = segment.path(suffix)
        data = files.read_file(path)
        if data is None:
            options.report(f"{path}: missing, built again")
            continue
        try:
            entries = read(data, segment.base_offset, path)
            if entries and suffix == names.OFFSET_INDEX and entries[-1][1] >= max(segment.size, 1):
                raise DamagedFileError(path, None, f"position {entries[-1][1]} is not in the segment")
        except DamagedFileError as error:
            options.report(f"{error}: built again")


def _load_producers(
    files: FileLayer, folder: str, segments: Sequence[LoadedSegment], end_offset: int, options: RecoveryOptions
) -> ProducerStates:
    """The producer states of the newest valid snapshot, and of the batches behind it. Raises: DamagedFileError."""
    parsed = map(names.parse_file_name, files.list_names(folder))
    offsets = sorted(found[0] for found in parsed if found is not None and found[1] == names.SNAPSHOT)
    for offset in reversed(offsets):
        path = f"{folder}/{names.file_name(offset, names.SNAPSHOT)}"
        data = files.read_file(path)
        if offset > end_offset or data is None:
            files.remove(path)
            continue
        try:
            states = producer_snapshots.read_snapshot(data, path)
            aborted = _load_aborted(files, segments, offset)
        except DamagedFileError as error:
            options.report(f"{error}: built again")
            continue
        producers = ProducerStates.restored(states, aborted)
        break
    else:
        producers, offset = ProducerStates(), 0
    for one in segments:
        try:
            producers.replay_batches(batch for batch in one.batches if batch.base_offset >= offset)
        except (WireError, KafkaError) as error:
            raise DamagedFileError(one.segment.path(names.LOG), None, f"no valid batch: {error}") from error
    return producers


def _load_aborted(files: FileLayer, segments: Sequence[LoadedSegment], before: int) -> list[AbortedTransaction]:
    """The aborted transactions in the index files of segments, whose markers are below an offset.

    Raises: DamagedFileError.
    """
    aborted: list[AbortedTransaction] = []
    for one in segments:
        path = one.segment.path(names.TRANSACTION_INDEX)
        data = files.read_file(path)
        if data:
            aborted += indexes.read_transaction_index(data, path)
    return [entry for entry in aborted if entry.last_offset < before]


def _load_leader_epochs(
    files: FileLayer, folder: str, segments: Sequence[LoadedSegment], end_offset: int, options: RecoveryOptions
) -> list[tuple[int, int]]:
    """The leader epochs of the checkpoint up to the end of the log, else those of the batches."""
    path = f"{folder}/{checkpoints.LEADER_EPOCHS}"
    data = files.read_file(path)
    entries: list[tuple[int, int]] = []
    if data is not None:
        try:
            entries = checkpoints.read_leader_epochs(data, path)
        except DamagedFileError as error:
            options.report(f"{error}: built again")
    entries = [entry for entry in entries if entry[1] <= end_offset]
    for batch in (batch for one in segments for batch in one.batches):
        if batch.leader_epoch > (entries[-1][0] if entries else -1):
            entries.append((batch.leader_epoch, batch.base_offset))
    return entries
