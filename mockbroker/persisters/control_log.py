"""State of share-partitions in the logs that they are views of: a node's part of it, where it leads partitions.

What has been recorded is kept in books (`share_books.py`), one for each topic-partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.calls import Unsettled
from mockbroker.coordinators.share_state_log import Written as Recorded
from mockbroker.kafka_error import KafkaError
from mockbroker.persisters.books import Book, Books, Place, Recovered
from mockbroker.persisters.control_batches import to_bytes
from mockbroker.state.hidden import Hidden
from mockbroker.state.metadata import Change, Topic
from mockbroker.state.share_chain import Chain, Checkpoint, Delta
from mockbroker.state.share_coordinator import NO_EPOCH, UNINITIALIZED_START, ShareKey, Stored, Summary, Written
from mockbroker.state.state_batches import combine

if TYPE_CHECKING:
    from mockbroker.context import ClusterState
    from mockbroker.node import Node

T = TypeVar("T")

#: How many deltas build on a checkpoint, by the name that share coordinators have for it.
DELTAS_PER_CHECKPOINT = "share.coordinator.snapshot.update.records.per.snapshot"


class ShareControlLog:
    """Has the operations of a share coordinator, for the topic-partitions that this node leads."""

    def __init__(self, cluster: ClusterState, node: Node) -> None:
        self._cluster = cluster
        self._node = node
        self._books = Books(cluster.kept.share_snapshots(node.node_id))
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
            is_lost = not chain.is_decided or chain.checkpoint_offset < book.log.start_offset
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
            return answer, None if key is None else self.recorded(key)
        except KafkaError as refusal:
            return refusal, None

    def error_of(self, recorded: Recorded, *, since_ms: int, now_ms: int) -> KafkaError | None:
        """What is wrong with something that was recorded: nothing (None), once all replicas in sync have it.

        Raises: Unsettled as long as they have not.
        """
        try:
            self.must_be_safe(recorded, since_ms=since_ms, now_ms=now_ms)
        except KafkaError as refusal:
            return refusal
        return None

    # What persisters and people look at.

    def recorded(self, key: ShareKey) -> Recorded:
        """What there is of a share partition's log now. Raises: NOT_COORDINATOR."""
        log = self._book(key).log
        return Recorded(key.topic_id, key.partition, log.end_offset, log.leader_epoch)

    def must_be_safe(self, recorded: Recorded, *, since_ms: int, now_ms: int) -> None:
        """Pass when all replicas in sync have it.

        Raises: Unsettled, after long COORDINATOR_NOT_AVAILABLE; NOT_COORDINATOR in another leader epoch, as the end of
        the log may have been cut off in between.
        """
        topic_id, index, end_offset, leader_epoch = recorded
        log = self._book(ShareKey("", topic_id, index)).log
        if log.leader_epoch != leader_epoch:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"leader epoch {log.leader_epoch} has begun")
        if log.high_watermark >= end_offset:
            return
        if now_ms - since_ms < self._cluster.config.integer("share.coordinator.write.timeout.ms"):
            raise Unsettled
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not all replicas have what was recorded")

    def hidden(self, key: ShareKey) -> Hidden:
        """The offsets of control records, which are never in flight."""
        log = self._book(key).log
        if log.hidden is None:
            log.hidden = Hidden()
        return log.hidden

    def chain(self, key: ShareKey) -> Chain | None:
        """What has been recorded of a share partition here; None when its book is closed, or says nothing of it."""
        book = self._books.find((key.topic_id, key.partition))
        return None if book is None else book.chains.get(key.group_id)

    def earliest_share_offset(self, place: Place) -> int | None:
        """KIP-932's ESO: the oldest of all groups' newest checkpoints; None while there is none."""
        book = self._books.find(place)
        return None if book is None else min(book.checkpoints().values(), default=None)

    def recovered(self, place: Place) -> Recovered | None:
        """How the book of a topic-partition was opened last."""
        book = self._books.find(place)
        return None if book is None else book.recovered

    def topic_changed(self, change: Change, topic: Topic) -> None:
        """Close the books of a topic that is gone."""
        if change is Change.DELETED:
            self._books.close(topic.topic_id)

    # Books.

    @property
    def _deltas_max(self) -> int:
        return self._cluster.config.integer(DELTAS_PER_CHECKPOINT)

    def _book(self, key: ShareKey, leader_epoch: int = -1) -> Book:
        place = (key.topic_id, key.partition)
        try:
            log = self._node.logs.get(*place, leader_epoch=leader_epoch)
        except KafkaError as refusal:
            if refusal.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise KafkaError(ErrorCode.NOT_COORDINATOR, refusal.message) from None
            raise
        return self._books.open(place, log)

    def _append(self, key: ShareKey, book: Book, fact: Checkpoint | Delta, now_ms: int) -> None:
        offset = book.log.append_hidden(to_bytes(key.group_id, fact, now_ms=now_ms), now_ms=now_ms)
        chain = book.chain(key.group_id)
        if isinstance(fact, Delta):
            is_next = chain.take_delta(offset, fact)
            assert is_next
        else:
            chain.take_checkpoint(offset, fact)
            self._books.keep((key.topic_id, key.partition), book)

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
