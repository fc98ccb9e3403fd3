"""Opens the folder of a partition: its segments, producers, leader epochs and offsets. Source: Kafka's LogLoader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mockbroker.disk_storage.partition_files import PartitionFiles
from mockbroker.disk_storage.partition_identity import PartitionIdentity
from mockbroker.disk_storage.producer_loading import load_producers
from mockbroker.disk_storage.replica_folders import ReplicaFolders
from mockbroker.disk_storage.segment_loading import LoadedSegments, LoadOptions, load_segments
from mockbroker.disk_storage.storage_services import StorageServices
from mockbroker.log_directory.formats import checkpoints, names
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.formats.log_summaries import LogSummary
from mockbroker.log_directory.recovery import finish_replacements, remove_segments, segment_offsets
from mockbroker.state.storage.batches.batch_storage import RestoredState


class StoredLog(NamedTuple):
    """What the log directory has of a log, besides the folder of its partition.

    log_start, high_watermark: of the checkpoints; the latter is None without one. clean_end: where it ended when the
    directory was closed cleanly, None if it was not. summary: None for a log that was not there when it was written.
    """

    log_start: int = 0
    high_watermark: int | None = None
    clean_end: int | None = None
    summary: LogSummary | None = None


def load_partition_files(
    identity: PartitionIdentity,
    folders: ReplicaFolders,
    services: StorageServices,
    options: LoadOptions,
    stored: StoredLog,
) -> tuple[PartitionFiles, RestoredState]:
    """Open the first folder.

    Raises: DamagedFileError for damage before valid batches and for missing batches, with the file and the position,
    unless `repair` is set; OSError.
    """
    finish_replacements(folders.files, folders.first, options.report)
    _remove_orphans(folders, options, is_expected=not (options.is_clean or (options.is_complete and stored.summary)))
    found = load_segments(folders, options)
    log_start = _check_log_start(stored, found, folders, options)
    if log_start > found.end_offset:
        # All records are deleted, and the batches before the start were not on the disk yet.
        remove_segments(folders.files, folders.first, [one.base_offset for one in found.segments], options.report)
        found = LoadedSegments(end_offset=log_start)
    _check_end(stored, found, folders, options)
    files = PartitionFiles(identity, folders, services, found.segments, end_offset=found.end_offset)
    start = max(log_start, found.segments[0].base_offset) if found.segments else log_start
    producers = load_producers(files, found, options, stored.summary, start)
    files.flushed_offset = found.end_offset if options.is_clean else min(options.recovery_point, found.end_offset)
    epochs = _read_leader_epochs(folders, files, found, options)
    return files, RestoredState(start, found.end_offset, None, producers, epochs, None)


def _remove_orphans(folders: ReplicaFolders, options: LoadOptions, *, is_expected: bool) -> None:
    """Remove index files without a segment. Raises: DamagedFileError, as the segment is missing; OSError.

    is_expected: a crash of the machine can leave them behind, and a killed Kafka, which removes the log first.
    """
    base_offsets = set(segment_offsets(folders.files, folders.first))
    parsed = map(names.parse_file_name, folders.files.list_names(folders.first))
    for base_offset, suffix in sorted(found for found in parsed if found is not None):
        if base_offset in base_offsets or suffix not in names.INDEXES:
            continue
        name = names.file_name(base_offset, suffix)
        if not (is_expected or options.repair):
            problem = f"missing, and {name} is there; --repair goes on without it"
            raise DamagedFileError(folders.path(names.file_name(base_offset, names.LOG)), None, problem)
        options.report(f"{folders.path(name)}: removed, it has no segment")
        folders.files.remove(folders.path(name))


def _check_log_start(stored: StoredLog, found: LoadedSegments, folders: ReplicaFolders, options: LoadOptions) -> int:
    """The start of the log. Raises: DamagedFileError for one behind the end of a log that is complete."""
    log_start, high_watermark = stored.log_start, stored.high_watermark
    is_unknown = high_watermark is not None and log_start > high_watermark
    if log_start <= found.end_offset or not (options.is_complete or is_unknown):
        return log_start
    path = f"{folders.first.split('/')[0]}/{checkpoints.LOG_STARTS}"
    problem = f"{folders.first} starts at offset {log_start}, and ends at {found.end_offset}"
    if not options.repair:
        raise DamagedFileError(path, None, f"{problem}; --repair starts it at its first batch")
    options.report(f"{path}: {problem}; it starts at its first batch")
    return 0


def _check_end(stored: StoredLog, found: LoadedSegments, folders: ReplicaFolders, options: LoadOptions) -> None:
    """Raises: DamagedFileError for a log that does not have what it had, unless `repair` is set."""
    end, summary = found.end_offset, stored.summary
    problem = None
    if stored.clean_end is not None and end != stored.clean_end:
        problem = f"the log ends at offset {end}, and ended at {stored.clean_end} when it was closed"
    elif stored.clean_end is not None and summary is not None and found.size < summary.size:
        # It has more where segments were deleted whose files could not be renamed.
        problem = f"the log has {found.size} bytes, and had {summary.size} when it was closed"
    elif options.is_complete and summary is not None and end < summary.high_watermark:
        problem = f"the log ends at offset {end}, and {summary.high_watermark} was its high watermark"
    if problem is None:
        return
    last = found.segments[-1] if found.segments else None
    path = folders.path(names.file_name(0, names.LOG) if last is None else last.name(names.LOG))
    if not options.repair:
        position = 0 if last is None else last.meta.size
        raise DamagedFileError(path, position, f"{problem}; --repair goes on with what is there")
    options.report(f"{path}: {problem}")


def _read_leader_epochs(
    folders: ReplicaFolders, files: PartitionFiles, found: LoadedSegments, options: LoadOptions
) -> Sequence[tuple[int, int]]:
    """The leader epochs of the checkpoint up to the end of the log, and those of the batches that were read."""
    path = folders.path(checkpoints.LEADER_EPOCHS)
    data = folders.files.read_file(path)
    entries: list[tuple[int, int]] | None = None
    if data is not None:
        try:
            entries = checkpoints.read_leader_epochs(data, path)
            _check_epochs(entries, found, options, path)
        except DamagedFileError as error:
            options.report(f"{error}: built again")
            entries = None
    if entries is None:
        entries = []
        read: Iterable[tuple[int, int]] = ((b.leader_epoch, b.base_offset) for b in files.batches_between(0))
    else:
        entries, read = [entry for entry in entries if entry[1] <= found.end_offset], found.epochs
    is_built = entries == [] and read is not found.epochs
    for epoch, offset in read:
        if epoch > (entries[-1][0] if entries else -1):
            entries.append((epoch, offset))
    if is_built and entries:
        files.write_leader_epochs(entries)
    return entries


def _check_epochs(entries: Sequence[tuple[int, int]], found: LoadedSegments, options: LoadOptions, path: str) -> None:
    """Raises: DamagedFileError for epochs that cannot be, and for a checkpoint that lacks those of the log."""
    last, in_log = (entries[-1][0] if entries else -1), (found.epochs[-1][0] if found.epochs else -1)
    if last > options.limits.epoch_max:
        problem = f"leader epoch {last}; at most {options.limits.epoch_max} can be there"
        raise DamagedFileError(path, None, problem)
    if not entries and in_log >= 0:
        raise DamagedFileError(path, None, f"no leader epoch, and the log has {in_log}")
