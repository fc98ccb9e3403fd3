"""Restores producer states and aborted transactions from snapshots, transaction indexes and batches of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from kwire.errors import WireError
from mockbroker.disk_storage.partition_files import PartitionFiles
from mockbroker.disk_storage.segment_loading import LoadedSegments, LoadOptions
from mockbroker.kafka_error import KafkaError
from mockbroker.log_directory.formats import indexes, names
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.formats.log_summaries import LogSummary
from mockbroker.state.storage.producers import AbortedTransaction, ProducerStates
from mockbroker.state.storage.stored_batch import StoredBatch

T = TypeVar("T")


def load_producers(
    files: PartitionFiles, found: LoadedSegments, options: LoadOptions, summary: LogSummary | None, start_offset: int
) -> ProducerStates:
    """The states at the end of the log.

    summary: what the transaction indexes must have; without one all are built again.
    Raises: DamagedFileError for batches that cannot be read; OSError.
    """
    reader = _BatchReader(files, found)
    aborted = _read_aborted(files, found, options)
    is_rebuilt = aborted is None or summary is None or not _is_verified(summary, aborted, found, start_offset)
    if is_rebuilt and found.end_offset > start_offset:
        if summary is not None and aborted is not None:
            options.report(f"{files.folders.first}: aborted transactions are missing in its indexes, built again")
        aborted = reader.run(lambda: _find_aborted(reader.batches_between(0, found.end_offset)))
    known = aborted or ()
    stored = files.producer_files
    producers = reader.run(
        lambda: stored.restore_states(
            found.end_offset, known, reader.batches_between, idle_until_ms=options.idle_until_ms
        )
    )
    if (
        summary is not None
        and not is_rebuilt
        and (newest := stored.find_newest(found.end_offset)) > summary.indexed_end
    ):
        # What is behind the summary may be missing in indexes, and the snapshot does not have it.
        verified = summary.indexed_end
        between = reader.run(
            lambda: stored.restore_states(newest, (), reader.batches_between, snapshot_max=verified).all_aborted()
        )
        producers.add_aborted(between)
    producers.add_aborted(known)
    files.producer_files.remove_snapshots_after(found.end_offset)
    files.producer_files.remove_unused({segment.base_offset for segment in found.segments})
    files.indexed_end = 0 if summary is None else min(summary.indexed_end, found.end_offset)
    _write_indexes(files, found, producers.all_aborted(), () if is_rebuilt else known, is_rebuilt=is_rebuilt)
    producers.drop_aborted_below(start_offset)
    return producers


def _is_verified(
    summary: LogSummary, aborted: Sequence[AbortedTransaction], found: LoadedSegments, start_offset: int
) -> bool:
    return summary.indexed_end <= found.end_offset and summary.has_all(aborted, start_offset)


def _find_aborted(batches: Iterable[StoredBatch]) -> list[AbortedTransaction]:
    producers = ProducerStates()
    producers.replay_batches(batches)
    return producers.all_aborted()


def _write_indexes(
    files: PartitionFiles,
    found: LoadedSegments,
    aborted: Sequence[AbortedTransaction],
    stored: Sequence[AbortedTransaction],
    *,
    is_rebuilt: bool,
) -> None:
    """Write the index files of closed segments that had to be built again. stored: in them. Raises: OSError."""
    ends = [one.base_offset for one in found.segments[1:]]
    for segment, end in zip(found.segments, ends, strict=False):
        wanted, have = (
            [one for one in entries if segment.base_offset <= one.last_offset < end] for entries in (aborted, stored)
        )
        if segment in found.rebuilt:
            segment.write_indexes(wanted)
            segment.drop_cached()
        elif wanted != have or is_rebuilt:
            segment.write_transactions(wanted)
    if is_rebuilt and found.segments:
        last = found.segments[-1]
        last.write_transactions([one for one in aborted if one.last_offset >= last.base_offset])
        files.indexed_end = found.end_offset


def _read_aborted(
    files: PartitionFiles, found: LoadedSegments, options: LoadOptions
) -> list[AbortedTransaction] | None:
    """The aborted transactions in the index files; None if one is damaged."""
    folders = files.folders
    present = set(folders.files.list_names(folders.first))
    aborted: list[AbortedTransaction] = []
    ends = [*(one.base_offset for one in found.segments[1:]), found.end_offset]
    for segment, end in zip(found.segments, ends, strict=False):
        name = segment.name(names.TRANSACTION_INDEX)
        if name not in present:
            continue
        path = folders.path(name)
        try:
            read = indexes.read_transaction_index(folders.files.read_file(path) or b"", path)
            if read and not segment.base_offset <= read[0].last_offset <= read[-1].last_offset < end:
                problem = f"markers at {read[0].last_offset} to {read[-1].last_offset}"
                raise DamagedFileError(path, None, f"{problem}; the segment has {segment.base_offset} to {end - 1}")
        except DamagedFileError as error:
            options.report(f"{error}: built again")
            return None
        aborted += read
    return aborted


class _BatchReader:
    """Reads batches of a log, and turns errors at one of them into errors that name file and position."""

    def __init__(self, files: PartitionFiles, found: LoadedSegments) -> None:
        self._files = files
        self._segments = found.segments
        self._last: StoredBatch | None = None

    def batches_between(self, first: int, end: int) -> Iterator[StoredBatch]:
        """The batches; checksums of control batches are checked, since it matters what these say."""
        for batch in self._files.iterate_batches(first, end):
            self._last = batch
            header = batch.header()
            if header.is_control:
                header.check_crc()
            yield batch

    def run(self, action: Callable[[], T]) -> T:
        """Run what reads. Raises: DamagedFileError."""
        try:
            return action()
        except WireError as error:
            batch = self._last
            assert batch is not None
            bases = [one for one in self._segments if one.base_offset <= batch.base_offset]
            path = self._files.folders.path(bases[-1].name(names.LOG))
            problem = f"no valid batch: {error}; --repair ends the log there"
            raise DamagedFileError(path, batch.at, problem) from error
        except KafkaError as error:
            raise DamagedFileError(self._files.folders.first, None, str(error.message)) from error
