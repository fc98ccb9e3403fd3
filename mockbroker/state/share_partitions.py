"""The share partitions that one node leads, as far as they have been asked for; their locks have one queue."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from mockbroker.state.lock_timers import LockTimers
from mockbroker.state.metadata import Change, Topic
from mockbroker.state.share_history import ShareHistory
from mockbroker.state.share_partition import PendingWrite, SharePartition
from mockbroker.state.share_rules import RELEASED, ShareRules

Key = tuple[Hashable, ...]


def wake_key(group_id: str, topic_id: bytes, partition_index: int) -> Key:
    """What a request waits for that waits for this share partition."""
    return ("share", group_id, topic_id, partition_index)


class SharePartitions:
    """The leader's cache. A partition that is dropped is fenced, and read anew from the share coordinator."""

    def __init__(
        self,
        *,
        wake: Callable[[Key], None],
        send: Callable[[PendingWrite, int], None],
        history: ShareHistory | None = None,
        rules: ShareRules = RELEASED,
    ) -> None:
        """Args: wake: tells waiting requests of a key. send: takes the writes of expired locks to the coordinator.

        history: where is noted what happens to records.
        """
        self._history = history
        self._rules = rules
        self._wake = wake
        self._send = send
        self._timers = LockTimers()
        self._partitions: dict[tuple[str, bytes, int], SharePartition] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, group_id: str, topic_id: bytes, partition_index: int) -> SharePartition | None:
        """The share partition if it is cached here."""
        return self._partitions.get((group_id, topic_id, partition_index))

    def get_or_create(
        self, group_id: str, topic_id: bytes, partition_index: int, *, leader_epoch: int, settings: Mapping[str, object]
    ) -> SharePartition:
        """The share partition, made now if nobody has asked for it yet; a new one is EMPTY and has to be loaded."""
        key = (group_id, topic_id, partition_index)
        partition = self._partitions.get(key)
        if partition is None:
            partition = self._partitions[key] = SharePartition(
                settings,
                group_id=group_id,
                topic_id=topic_id,
                partition_index=partition_index,
                leader_epoch=leader_epoch,
                timers=self._timers,
                send=self._send,
                wake=lambda: self._wake(wake_key(*key)),
                history=self._history,
                rules=self._rules,
            )
        return partition

    def drop(self, partition: SharePartition) -> None:
        """Fence a partition and forget it; who waits for it looks again."""
        key = (partition.group_id, partition.topic_id, partition.partition_index)
        if self._partitions.get(key) is partition:
            del self._partitions[key]
        partition.fence()
        self._wake(wake_key(*key))

    def forget_failed(self, partition: SharePartition) -> None:
        """Forget a partition that could not be loaded, so that the next fetch tries again; its error stays with it."""
        key = (partition.group_id, partition.topic_id, partition.partition_index)
        if self._partitions.get(key) is partition:
            del self._partitions[key]

    def drop_group(self, group_id: str) -> None:
        """Forget all partitions of a group that has no sessions left here (share-semantics 4.6)."""
        self._drop_all(lambda key: key[0] == group_id)

    def drop_all(self) -> None:
        """Forget everything: share groups have been switched off."""
        self._drop_all(lambda key: True)

    def topic_changed(self, change: Change, topic: Topic, *, node_id: int) -> None:
        """Forget, in every group, the partitions that this node does not lead any more (share-semantics 2.11)."""
        if change in (Change.DELETED, Change.LED_ANEW):
            led = {p.index for p in topic.partitions if p.leader == node_id} if change is Change.LED_ANEW else set()
            self._drop_all(lambda key: key[1] == topic.topic_id and key[2] not in led)

    def _drop_all(self, concerns: Callable[[tuple[str, bytes, int]], bool]) -> None:
        for key in [key for key in self._partitions if concerns(key)]:
            self.drop(self._partitions[key])

    def next_deadline_ms(self) -> int | None:
        """When the next acquisition lock runs out, or None."""
        return self._timers.next_deadline_ms()

    def expire(self, *, now_ms: int) -> None:
        """Release what the next lock covers whose time has come; one lock a call, others of the same time follow.

        Between two of them whoever was woken takes its turn, as in Kafka: after a batch was split, a parked fetch gets
        its first expired offset, and its neighbours come with the next fetch (share-semantics 1.3).
        """
        lock = self._timers.pop(now_ms=now_ms)
        if lock is not None:
            lock.holder.lock_expired(lock, now_ms=now_ms)
