"""State of share-partitions in the logs that they are views of: a node's part of it, where it leads partitions.

What has been recorded is kept in memory, one book for each topic-partition, and read from the log when a book is first
opened in a leader epoch: from the oldest checkpoint that the share snapshot file names, or the whole log when the file
is missing or wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.calls import Unsettled
from mockbroker.kafka_error import KafkaError
from mockbroker.share_control_records import from_record, from_snapshot_file, to_bytes, to_snapshot_file
from mockbroker.share_state_log import Written as Recorded
from mockbroker.state.hidden import NOTHING_KEPT, Hidden
from mockbroker.state.log import PartitionLog, StoredBatch
from mockbroker.state.metadata import Change, Topic
from mockbroker.state.share_chain import Chain, Checkpoint, Delta
from mockbroker.state.share_coordinator import NO_EPOCH, UNINITIALIZED_START, ShareKey, Stored, Summary, Written
from mockbroker.state.state_batches import combine

if TYPE_CHECKING:
    from mockbroker.context import ClusterState
    from mockbroker.node import Node

T = TypeVar("T")
Place = tuple[bytes, int]

#: How many deltas build on a checkpoint, by the name that share coordinators have for it.
DELTAS_PER_CHECKPOINT = "share.coordinator.snapshot.update.records.per.snapshot"


class Recovery(Enum):
    """How a leader has found the control records of a topic-partition."""

    SNAPSHOT_FILE = "the share snapshot file"
    SCAN = "a scan of the log"


class Recovered(NamedTuple):
    """How a book was opened, and from which offset on the log was read for it."""

    way: Recovery
    first_offset: int


class _Book:
    """What the log of one topic-partition tells of the groups that share it."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.leader_epoch = log.leader_epoch
        self.chains: dict[str, Chain] = {}
        self.recovered = Recovered(Recovery.SCAN, log.start_offset)

    def chain(self, group_id: str) -> Chain:
        if group_id not in self.chains:
            self.chains[group_id] = Chain(self.log.has_between)
        return self.chains[group_id]

    def checkpoints(self) -> dict[str, int]:
        """Where the newest checkpoint of each group is that has a state."""
        return {name: chain.checkpoint_offset for name, chain in self.chains.items() if chain.is_decided}

    def replay(self, batches: Sequence[StoredBatch]) -> None:
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


class ShareControlLog:
    """Has the operations of a share coordinator, for the topic-partitions that this node leads."""

    def __init__(self, cluster: ClusterState, node: Node) -> None:
        self._cluster = cluster
        self._node = node
        self._files = cluster.kept.share_snapshots(node.node_id)
        self._books: dict[Place, _Book] = {}
        self._waiting: dict[ShareKey, list[tuple[int, Written]]] = {}

    # Operations, each for one share partition. The persister has the writes of a message recorded by `record`.

    def initialize(self, key: ShareKey, *, state_epoch: int, start_offset: int, now_ms: int) -> None:
        """Begin anew at an offset. Without one, what there is stays: it is no alteration."""
        book = self._book(key)
        chain = book.chain(key.group_id)
        if start_offset == UNINITIALIZED_START:
            return
        self._append(key, book, chain.begin(start_offset), now_ms)
        self._supersede(key, chain, state_epoch)

    def decide(self, key: ShareKey, start: int, *, state_epoch: int, leader_epoch: int, now_ms: int) -> None:
        """The leader has found out where a share partition without a state begins: that is its first checkpoint.

        Raises: FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH.
        """
        book = self._book(key, leader_epoch)
        chain = book.chain(key.group_id)
        _must_be_of_now(key, chain, state_epoch)
        if not chain.is_decided:
            self._append(key, book, chain.begin(start), now_ms)

    def read(self, key: ShareKey, *, leader_epoch: int, now_ms: int) -> Stored:
        """What has been recorded. Raises: FENCED_LEADER_EPOCH."""
        book = self._book(key, leader_epoch)
        chain = book.chain(key.group_id)
        start = max(chain.start, book.log.start_offset) if chain.is_decided else UNINITIALIZED_START
        batches = tuple(combine((), chain.batches, start))
        return Stored(0, chain.state_epoch, leader_epoch, start, -1, batches, now_ms, now_ms)

    def write(self, key: ShareKey, written: Written, *, now_ms: int) -> None:
        """Take what a leader has settled, for `record`. Raises: FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH."""
        chain = self._book(key, written.leader_epoch).chain(key.group_id)
        _must_be_of_now(key, chain, written.state_epoch)
        if not chain.is_decided and written.start_offset == UNINITIALIZED_START:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} has no start yet")
        self._waiting.setdefault(key, []).append((now_ms, written))

    def delete(self, key: ShareKey, *, now_ms: int) -> None:
        """Forget a share partition. A checkpoint without a start says so to whoever reads the log."""
        book = self._book(key)
        chain = book.chain(key.group_id)
        if chain.is_decided:
            self._append(key, book, chain.begin(UNINITIALIZED_START), now_ms)
        self._supersede(key, chain)

    def summary(self, key: ShareKey) -> Summary:
        """Start offset and count of what is done behind it; control records are done for everybody."""
        book = self._book(key)
        chain = book.chains.get(key.group_id)
        if chain is None or not chain.is_decided:
            return Summary(UNINITIALIZED_START, -1, 0, 0)
        hidden = book.log.hidden
        control_count = 0 if hidden is None else hidden.between(chain.start, book.log.high_watermark)
        return Summary(chain.start, chain.settled_count + control_count, book.leader_epoch, chain.state_epoch)

    def record(self) -> None:
        """Append one control record for all writes of a share partition that came with a message."""
        waiting, self._waiting = self._waiting, {}
        for key, writes in waiting.items():
            book, now_ms = self._book(key), writes[-1][0]
            chain = book.chain(key.group_id)
            batches = [batch for _, write in writes for batch in write.batches]
            start = max(write.start_offset for _, write in writes)
            checkpoint = chain.next_checkpoint(start, batches)
            is_lost = chain.checkpoint_offset < book.log.start_offset
            if is_lost or chain.deltas >= self._deltas_max or chain.start_after(batches) != checkpoint.start:
                self._append(key, book, checkpoint, now_ms)
                continue
            delta = chain.next_delta(batches)
            if delta.batches:
                self._append(key, book, delta, now_ms)

    def delete_before(self, place: Place, offset: int, *, now_ms: int) -> int:
        """Move the start of a log; a checkpoint that goes with its records is written anew at the end.

        Raises: OFFSET_OUT_OF_RANGE.
        """
        book = self._book(ShareKey("", *place))
        start = book.log.delete_before(offset)
        for group_id, chain in book.chains.items():
            if chain.is_decided and chain.checkpoint_offset < start:
                self._append(ShareKey(group_id, *place), book, chain.next_checkpoint(start, ()), now_ms)
        return start

    # Requests that ask for state, and may as well be answered by a coordinator.

    @property
    def coordinator(self) -> ShareControlLog:
        """Whose operations are asked for."""
        return self

    def do(self, operation: Callable[[], T], key: ShareKey | None = None) -> tuple[T | KafkaError, Recorded | None]:
        """Do one thing for one share partition. Returns: the answer, and what replicas must have before it leaves.

        key: None for what does not wait.
        """
        try:
            answer = operation()
            self.record()
            if key is None:
                return answer, None
            return answer, Recorded(key.topic_id, key.partition, self.end_offset(key))
        except KafkaError as refusal:
            return refusal, None

    def error_of(self, recorded: Recorded, *, since_ms: int, now_ms: int) -> KafkaError | None:
        """What is wrong with something that was recorded: nothing (None), once all replicas in sync have it.

        Raises: Unsettled as long as they have not.
        """
        topic_id, index, end_offset = recorded
        try:
            self.must_be_safe(ShareKey("", topic_id, index), end_offset, since_ms=since_ms, now_ms=now_ms)
        except KafkaError as refusal:
            return refusal
        return None

    # What persisters and people look at.

    def end_offset(self, key: ShareKey) -> int:
        """Where the log ends; what was recorded is safe when all replicas have it up to there."""
        return self._book(key).log.end_offset

    def must_be_safe(self, key: ShareKey, end_offset: int, *, since_ms: int, now_ms: int) -> None:
        """Pass when all replicas in sync have the log up to there.

        Raises: Unsettled, after long COORDINATOR_NOT_AVAILABLE; NOT_COORDINATOR where another node leads meanwhile.
        """
        if self._book(key).log.high_watermark >= end_offset:
            return
        if now_ms - since_ms < self._cluster.config.integer("share.coordinator.write.timeout.ms"):
            raise Unsettled
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"not all replicas have what was recorded of {key}")

    def hidden(self, key: ShareKey) -> Hidden:
        """The offsets of control records, which are never in flight."""
        log = self._book(key).log
        if log.hidden is None:
            log.hidden = Hidden()
        return log.hidden

    def chain(self, key: ShareKey) -> Chain | None:
        """What has been recorded of a share partition here; None when its book is closed, or says nothing of it."""
        book = self._books.get((key.topic_id, key.partition))
        return None if book is None else book.chains.get(key.group_id)

    def earliest_share_offset(self, place: Place) -> int | None:
        """KIP-932's ESO: the oldest of all groups' newest checkpoints; None while there is none."""
        book = self._books.get(place)
        return None if book is None else min(book.checkpoints().values(), default=None)

    def recovered(self, place: Place) -> Recovered | None:
        """How the book of a topic-partition was opened last."""
        book = self._books.get(place)
        return None if book is None else book.recovered

    def topic_changed(self, change: Change, topic: Topic) -> None:
        """Close the books of a topic that is gone."""
        if change is Change.DELETED:
            for place in [place for place in self._books if place[0] == topic.topic_id]:
                del self._books[place]
                self._files.lose(place)

    # Books.

    @property
    def _deltas_max(self) -> int:
        return self._cluster.config.integer(DELTAS_PER_CHECKPOINT)

    def _book(self, key: ShareKey, leader_epoch: int = -1) -> _Book:
        place = (key.topic_id, key.partition)
        try:
            log = self._node.logs.get(*place, leader_epoch=leader_epoch)
        except KafkaError as refusal:
            if refusal.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise KafkaError(ErrorCode.NOT_COORDINATOR, refusal.message) from None
            raise
        book = self._books.get(place)
        if book is None or book.leader_epoch != log.leader_epoch or book.log is not log:
            book = self._books[place] = self._opened(place, log)
        return book

    def _opened(self, place: Place, log: PartitionLog) -> _Book:
        book = _Book(log)
        first = self._first_checkpoint(place, log)
        if first is not None:
            book.recovered = Recovered(Recovery.SNAPSHOT_FILE, first)
        book.replay(log.from_offset(book.recovered.first_offset))
        self._keep(place, book)
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

    def _append(self, key: ShareKey, book: _Book, fact: Checkpoint | Delta, now_ms: int) -> None:
        offset = book.log.append_hidden(to_bytes(key.group_id, fact, now_ms=now_ms), now_ms=now_ms)
        chain = book.chain(key.group_id)
        if isinstance(fact, Delta):
            is_next = chain.take_delta(offset, fact)
            assert is_next
        else:
            chain.take_checkpoint(offset, fact)
            self._keep((key.topic_id, key.partition), book)

    def _keep(self, place: Place, book: _Book) -> None:
        """A checkpoint is new: note where it is, and let the cleaner have what is older than all of them."""
        checkpoints = book.checkpoints()
        if book.log.hidden is not None:
            book.log.hidden.keep_from = min(checkpoints.values(), default=NOTHING_KEPT)
            self._files.write(place, to_snapshot_file(checkpoints))

    def _supersede(self, key: ShareKey, chain: Chain, state_epoch: int = 0) -> None:
        """What was settled of the state until now is none of the one that begins, nor what is still on its way.

        The leader's own share partition knows nothing of what has just been altered: it is read anew.
        """
        # An epoch of its own, as a group that stays empty keeps its epoch, however often it is altered.
        chain.state_epoch = max(chain.state_epoch + 1, state_epoch)
        self._waiting.pop(key, None)
        partition = self._node.share_partitions.get(*key) if self._node.entered("share_partitions") else None
        if partition is not None:
            self._node.share_partitions.drop(partition)


def _must_be_of_now(key: ShareKey, chain: Chain, state_epoch: int) -> None:
    """Refuse what a leader says of a state that has been altered or deleted since it was read."""
    if NO_EPOCH != state_epoch < chain.state_epoch:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, f"state epoch {state_epoch} of {key} is old")
