"""What leaders know of the control records in their logs, and how they find them: by the share snapshot file or a scan.

A book is opened when it is first asked for in a leader epoch: from the oldest checkpoint on that the file names, or
from the log's start when the file is missing or wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from mockbroker.persisters.control_batches import from_record, from_snapshot_file, to_snapshot_file
from mockbroker.state.hidden import NOTHING_KEPT
from mockbroker.state.share_chain import Chain, Checkpoint

if TYPE_CHECKING:
    from mockbroker.state.log import PartitionLog, StoredBatch
    from mockbroker.state.share_snapshots import ShareSnapshots

Place = tuple[bytes, int]


class Recovery(Enum):
    """How a leader has found the control records of a topic-partition."""

    SNAPSHOT_FILE = "the share snapshot file"
    SCAN = "a scan of the log"


class Recovered(NamedTuple):
    """How a book was opened, and from which offset on the log was read for it."""

    way: Recovery
    first_offset: int


class Book:
    """What the log of one topic-partition tells of the groups that share it."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.leader_epoch = log.leader_epoch
        self.chains: dict[str, Chain] = {}
        self.recovered = Recovered(Recovery.SCAN, log.start_offset)

    def chain(self, group_id: str) -> Chain:
        """What is recorded of a group, be it nothing yet."""
        if group_id not in self.chains:
            self.chains[group_id] = Chain(self.log.has_between)
        return self.chains[group_id]

    def checkpoints(self) -> dict[str, int]:
        """Where the newest checkpoint of each group is that has a state."""
        return {name: chain.checkpoint_offset for name, chain in self.chains.items() if chain.is_decided}

    def replay(self, batches: Sequence[StoredBatch]) -> None:
        """Take over what control records say that a log has."""
        for batch in batches:
            if not batch.hidden:
                continue
            for record in batch.records():
                found = from_record(record)
                if found is None:
                    continue
                group_id, fact = found
                if isinstance(fact, Checkpoint):
                    self.chain(group_id).take_checkpoint(record.offset, fact)
                else:
                    self.chain(group_id).take_delta(record.offset, fact)


class Books:
    """One node's books by topic id and partition, with its share snapshot files."""

    def __init__(self, files: ShareSnapshots) -> None:
        self._files = files
        self._books: dict[Place, Book] = {}

    def find(self, place: Place) -> Book | None:
        """The book as it was opened last."""
        return self._books.get(place)

    def open(self, place: Place, log: PartitionLog) -> Book:
        """The book of a log that this node leads now."""
        book = self._books.get(place)
        if book is None or book.leader_epoch != log.leader_epoch or book.log is not log:
            book = self._books[place] = self._opened(place, log)
        return book

    def keep(self, place: Place, book: Book) -> None:
        """A checkpoint is new: note where it is, and let the cleaner have what is older than all of them."""
        checkpoints = book.checkpoints()
        if book.log.hidden is not None:
            book.log.hidden.keep_from = min(checkpoints.values(), default=NOTHING_KEPT)
            self._files.write(place, to_snapshot_file(checkpoints))

    def close(self, topic_id: bytes) -> None:
        """Forget a topic that is gone."""
        for place in [place for place in self._books if place[0] == topic_id]:
            del self._books[place]
            self._files.lose(place)

    def _opened(self, place: Place, log: PartitionLog) -> Book:
        book = Book(log)
        first = self._first_checkpoint(place, log)
        if first is not None:
            book.recovered = Recovered(Recovery.SNAPSHOT_FILE, first)
        book.replay(log.from_offset(book.recovered.first_offset))
        self.keep(place, book)
        return book

    def _first_checkpoint(self, place: Place, log: PartitionLog) -> int | None:
        """Where to begin reading by the snapshot file; None when it is missing, or names what is no checkpoint."""
        data = self._files.read(place)
        offsets = None if data is None else from_snapshot_file(data)
        if not offsets:
            return None
        for group_id, offset in offsets.items():
            batch = next(iter(log.from_offset(offset)), None) if log.start_offset <= offset < log.end_offset else None
            found = from_record(batch.records()[0]) if batch is not None and batch.hidden else None
            if found is None or batch is None or batch.base_offset != offset or found[0] != group_id:
                return None
            if not isinstance(found[1], Checkpoint):
                return None
        return min(offsets.values())
