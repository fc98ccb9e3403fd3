"""Opens the folder of a partition: its segments, producers, leader epochs and offsets. Source: Kafka's LogLoader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mockbroker.disk_storage.partition_files import PartitionFiles
from mockbroker.disk_storage.partition_identity import PartitionIdentity
from mockbroker.disk_storage.replica_folders import ReplicaFolders
from mockbroker.disk_storage.segment_loading import LoadedSegments, LoadOptions, load_segments
from mockbroker.disk_storage.storage_services import StorageServices
from mockbroker.log_directory.formats import checkpoints, indexes, names
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.recovery import finish_replacements, remove_segments
from mockbroker.state.storage.batches.batch_storage import RestoredState
from mockbroker.state.storage.producers import AbortedTransaction


def load_partition_files(
    identity: PartitionIdentity,
    folders: ReplicaFolders,
    services: StorageServices,
    options: LoadOptions,
    *,
    log_start: int = 0,
) -> tuple[PartitionFiles, RestoredState]:
    """Open the first folder. log_start: as stored in the checkpoint.

    Raises: DamagedFileError for damage before valid batches, with the file and the position, unless `repair` is set;
    OSError; KAFKA_STORAGE_ERROR for batches that cannot be read.
    """
    finish_replacements(folders.files, folders.first, options.report)
    found = load_segments(folders, options)
    if log_start > found.end_offset:
        # All records are deleted, and the batches before the start were not on the disk yet.
        remove_segments(folders.files, folders.first, [one.base_offset for one in found.segments], options.report)
        found = LoadedSegments(end_offset=log_start)
    files = PartitionFiles(identity, folders, services, found.segments, end_offset=found.end_offset)
    aborted = _read_aborted(folders, found, options)
    if aborted is None:
        # Without the transaction indexes, the markers have to be read again.
        files.producer_files.remove_snapshots()
    producers = files.producer_files.restore_states(
        found.end_offset, aborted or (), files.batches_between, options.idle_until_ms
    )
    files.producer_files.remove_snapshots_after(found.end_offset)
    files.producer_files.remove_unused({segment.base_offset for segment in found.segments})
    all_aborted = producers.all_aborted()
    for segment, end in zip(found.segments, [*(one.base_offset for one in found.segments[1:]), None], strict=False):
        if segment in found.rebuilt and end is not None:
            segment.write_indexes([one for one in all_aborted if segment.base_offset <= one.last_offset < end])
            segment.drop_cached()
    start = max(log_start, found.segments[0].base_offset) if found.segments else log_start
    producers.drop_aborted_below(start)
    files.flushed_offset = found.end_offset if options.is_clean else min(options.recovery_point, found.end_offset)
    epochs = _read_leader_epochs(folders, files, found, options)
    return files, RestoredState(start, found.end_offset, None, producers, epochs, None)


def _read_aborted(
    folders: ReplicaFolders, found: LoadedSegments, options: LoadOptions
) -> list[AbortedTransaction] | None:
    """The aborted transactions in the index files; None if one is damaged."""
    present = set(folders.files.list_names(folders.first))
    aborted: list[AbortedTransaction] = []
    for segment in found.segments:
        name = segment.name(names.TRANSACTION_INDEX)
        if name not in present:
            continue
        path = folders.path(name)
        try:
            aborted += indexes.read_transaction_index(folders.files.read_file(path) or b"", path)
        except DamagedFileError as error:
            options.report(f"{error}: built again")
            return None
    return aborted


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
        except DamagedFileError as error:
            options.report(f"{error}: built again")
    if entries is None:
        entries = []
        read: Iterable[tuple[int, int]] = ((b.leader_epoch, b.base_offset) for b in files.batches_between(0))
    else:
        entries, read = [entry for entry in entries if entry[1] <= found.end_offset], found.epochs
    for epoch, offset in read:
        if epoch > (entries[-1][0] if entries else -1):
            entries.append((epoch, offset))
    return entries
