"""`BatchStorage`: where the batches of one log are, in memory or in files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from mockbroker.state.storage.batch_index import BatchIndex
from mockbroker.state.storage.log_config import AppendRules
from mockbroker.state.storage.producers import AbortedTransaction, ProducerStates
from mockbroker.state.storage.segments import LogSegment, LogSegments, RollRules
from mockbroker.state.storage.stored_batch import NewBatch, StoredBatch

Data = bytes | bytearray | memoryview
#: A compacted segment, still empty, and the batches that it gets, which are read once.
CleanedSegment = tuple[LogSegment, Iterable[StoredBatch]]


class RestoredState(NamedTuple):
    """What a storage has of a log. leader_epochs: with their start offsets. cleaned_to: offsets below are compacted.

    high_watermark: the last one that was stored.
    """

    start_offset: int
    end_offset: int
    high_watermark: int | None
    producers: ProducerStates
    leader_epochs: Sequence[tuple[int, int]]
    cleaned_to: int | None


class BatchStorage(Protocol):
    """The batches of a log in order, in segments. Iterables of batches can be read again.

    Methods that write raise KAFKA_STORAGE_ERROR when the storage fails, and then nothing has changed; methods that read
    raise it too.
    """

    segments: LogSegments

    def append(self, data: Data, batch: NewBatch, rules: AppendRules, *, now_ms: int) -> None:
        """Store a batch at the end, with the offset and leader epoch of `batch`, in a new segment if needed."""

    def sync_unsynced(self) -> None:
        """Return when all batches are on the disk, where acknowledgements wait for it."""

    def roll_segment(self, base_offset: int, rules: RollRules, *, now_ms: int) -> None:
        """Start a segment at the end of the log."""

    def index_from(self, offset: int, size: int) -> BatchIndex:
        """Batches of one segment from the one that contains an offset on, or from the next one, possibly others too.

        As many as have `size` bytes, and one more, unless the segment ends before.
        """

    def batches_between(self, first: int, end: int | None = None) -> Iterable[StoredBatch]:
        """The batches that end at an offset or later, and before `end`."""

    def batches_since(self, timestamp: int) -> Iterable[StoredBatch]:
        """The batches from the first one on that has this timestamp or a later one; others can be before it."""

    def newest_batches(self) -> tuple[int, Iterable[StoredBatch]]:
        """The largest timestamp of all segments, -1 without one, and the batches as of `batches_since`.

        Records below the log start count as long as their segment exists.
        """

    def last_of_next_indexed(self, offset: int, end: int) -> int | None:
        """The last offset of the first batch at or above `end` with an index entry, in the segment of an offset."""

    def delete_below(self, offset: int) -> None:
        """The log starts at this offset now; batches that end before it are not returned any more."""

    def drop_first_segments(self, count: int) -> None:
        """Remove the first segments; at least one stays."""

    def replace_first_segments(
        self, count: int, end: int, cleaned: Iterable[CleanedSegment], aborted: Sequence[AbortedTransaction]
    ) -> None:
        """Replace the first segments, which end at an offset, by compacted ones; their sizes and times are set.

        aborted: the aborted transactions that remain; it is filled while the batches are read.
        """

    def truncate_to(self, offset: int) -> list[StoredBatch]:
        """Remove and return the batches that end at an offset or later."""

    def producers_until(self, offset: int, producers: ProducerStates) -> ProducerStates:
        """The producer states at an offset, where the log ends now. producers: those before it was truncated."""

    def write_leader_epochs(self, entries: Sequence[tuple[int, int]]) -> None:
        """Store the leader epochs of the log with their start offsets."""

    def remove(self) -> None:
        """The topic is deleted."""
