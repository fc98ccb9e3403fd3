"""Cache of the share partitions that one node leads; their acquisition locks have one queue."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from mockbroker.state.metadata.cluster_image import Topic, TopicChange
from mockbroker.state.metadata.topics import Partition, TopicPartitionKey
from mockbroker.state.settings import Settings
from mockbroker.state.share.acquisition_locks import AcquisitionLocks
from mockbroker.state.share.dead_letter import DeadLetter
from mockbroker.state.share.pending_write import PendingWrite
from mockbroker.state.share.share_history import ShareHistory
from mockbroker.state.share.share_partition import SharePartition
from mockbroker.state.share.share_rules import RELEASED, ShareRules
from mockbroker.state.timers import EarliestDeadline

WakeKey = tuple[Hashable, ...]
#: A group, a topic id and a partition index.
_Key = tuple[str, bytes, int]


def wake_key(group_id: str, topic_id: bytes, partition_index: int) -> WakeKey:
    """The key that wakes requests waiting for this share partition."""
    return ("share", group_id, topic_id, partition_index)


class SharePartitions:
    """The leader's cache. A partition that is dropped is fenced, and read again from the share coordinator."""

    def __init__(
        self,
        *,
        wake: Callable[[WakeKey], None],
        send_write: Callable[[SharePartition, PendingWrite, int], None],
        send_dead_letter: Callable[[SharePartition, DeadLetter, int], None],
        serves_dead_letters: Callable[[], bool],
        history: ShareHistory | None = None,
        rules: ShareRules = RELEASED,
        earliest: EarliestDeadline | None = None,
    ) -> None:
        """Args: wake: wakes the requests waiting for a key. send_write: sends writes of expired locks.

        send_dead_letter, serves_dead_letters: see `SharePartition`. history: the history of all share partitions.
        earliest: of the cluster.
        """
        self._history = history
        self._rules = rules
        self._wake = wake
        self._send_write = send_write
        self._send_dead_letter = send_dead_letter
        self._serves_dead_letters = serves_dead_letters
        self._locks = AcquisitionLocks(earliest)
        self._partitions: dict[_Key, SharePartition] = {}
        self._groups: dict[TopicPartitionKey, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[SharePartition]:
        return iter(list(self._partitions.values()))

    def get(self, group_id: str, topic_id: bytes, partition_index: int) -> SharePartition | None:
        """The share partition if it is cached here."""
        return self._partitions.get((group_id, topic_id, partition_index))

    def get_or_create(
        self, group_id: str, topic_id: bytes, partition_index: int, *, leader_epoch: int, settings: Settings
    ) -> SharePartition:
        """The share partition, created on first use; a new one is EMPTY and must be loaded."""
        key = (group_id, topic_id, partition_index)
        partition = self._partitions.get(key)
        if partition is None:
            self._groups.setdefault(key[1:], {})[group_id] = None
            partition = self._partitions[key] = SharePartition(
                settings,
                key=key,
                leader_epoch=leader_epoch,
                locks=self._locks,
                send_write=self._send_write,
                send_dead_letter=self._send_dead_letter,
                serves_dead_letters=self._serves_dead_letters,
                wake=lambda: self._wake(wake_key(*key)),
                history=self._history,
                rules=self._rules,
            )
        return partition

    def drop_partition(self, partition: SharePartition) -> None:
        """Fence a partition, remove it, and wake the requests that wait for it."""
        self.remove_failed(partition)
        partition.fence()
        self._wake(wake_key(*partition.key))

    def remove_failed(self, partition: SharePartition) -> None:
        """Remove a partition that could not be loaded, so that the next fetch tries again; it keeps its error."""
        if self._partitions.get(partition.key) is not partition:
            return
        group_id, topic_id, index = partition.key
        del self._partitions[partition.key]
        groups = self._groups[topic_id, index]
        del groups[group_id]
        if not groups:
            del self._groups[topic_id, index]

    def drop_group(self, group_id: str) -> None:
        """Drop all partitions of a group that has no sessions left here (share-semantics 4.6)."""
        self._drop([key for key in self._partitions if key[0] == group_id])

    def drop_all(self) -> None:
        """Drop all partitions: share groups have been switched off."""
        self._drop(list(self._partitions))

    def on_topic_change(self, node_id: int, change: TopicChange, topic: Topic, partitions: Sequence[Partition]) -> None:
        """Drop, in every group, the partitions that this node does not lead any more (share-semantics 2.11)."""
        if change not in (TopicChange.DELETED, TopicChange.LEADER_CHANGED):
            return
        for partition in partitions:
            if change is TopicChange.DELETED or partition.leader != node_id:
                groups = self._groups.get((topic.topic_id, partition.index), ())
                self._drop([(group_id, topic.topic_id, partition.index) for group_id in groups])

    def _drop(self, keys: Iterable[_Key]) -> None:
        for key in keys:
            self.drop_partition(self._partitions[key])

    def next_deadline_ms(self) -> int | None:
        """The deadline of the next acquisition lock, or None."""
        return self._locks.next_deadline_ms()

    def expire(self, *, now_ms: int) -> None:
        """Release what the next expired lock covers; one lock a call, others of the same time follow.

        Between two of them woken requests run, as in Kafka: after a batch was split, a parked fetch gets its first
        expired offset, and the following ones come with the next fetch (share-semantics 1.3).
        """
        lock = self._locks.pop_expired(now_ms=now_ms)
        if lock is not None:
            lock.partition.release_expired_lock(lock, now_ms=now_ms)
