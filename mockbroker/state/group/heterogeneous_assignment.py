"""The uniform assignor of consumer groups whose members subscribe to different topics.

Members keep the partitions that they have, unassigned ones go to the subscribers with the fewest, and then partitions
move until the subscribers of each topic differ by one at most. Source: Kafka's UniformHeterogeneousAssignmentBuilder;
pinned by the conversations other-consumer-uniform-mixed*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mockbroker.state.group.group import Assignment
from mockbroker.state.metadata.topics import TopicPartitionKey

#: Passes over all topics; overlapping subscriptions may need more for a perfect balance.
_PASSES_MAX = 16
_NO_MEMBER = -1


class SubscriberLoads:
    """The subscribers of a topic in order of their number of partitions, from which the next receiver and giver follow.

    sizes: the number of partitions of each member, of all topics; the caller changes it as partitions move.
    """

    def __init__(self, subscribers: Iterable[int], sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._order = sorted(subscribers, key=lambda member: (sizes[member], member))
        count = len(self._order)
        self._receivers, self._receiver_size, self._next_receiver = 0, sizes[self._order[0]] - 1, 0
        self._first_giver, self._giver_size, self._next_giver = count, sizes[self._order[-1]] + 1, count - 1
        self._end_of_givers = count
        self.imbalance = sizes[self._order[-1]] - sizes[self._order[0]]

    def is_balanced(self) -> bool:
        """Return whether receivers and givers differ by one partition at most."""
        return self._giver_size - self._receiver_size <= 1

    def next_receiver(self) -> int:
        """The next of the members with the fewest partitions, who receive one in turn."""
        if self._next_receiver >= self._receivers:
            self._receiver_size += 1
            while self._receivers < len(self._order) and self._size_at(self._receivers) == self._receiver_size:
                self._receivers += 1
            self._next_receiver = 0
        self._next_receiver += 1
        return self._order[self._next_receiver - 1]

    def next_giver(self) -> int | None:
        """The next of the members with the most partitions, who give one in turn; None when all are excluded."""
        if self._next_giver < self._first_giver:
            if self._end_of_givers <= self._first_giver and self._first_giver > 0:
                self._giver_size = self._size_at(self._first_giver - 1)
            else:
                self._giver_size -= 1
            while self._first_giver > 0 and self._size_at(self._first_giver - 1) == self._giver_size:
                self._first_giver -= 1
            self._next_giver = self._end_of_givers - 1
        if self._next_giver < 0:
            return None
        self._next_giver -= 1
        return self._order[self._next_giver + 1]

    def exclude_giver(self) -> None:
        """Exclude the last giver, which has no partition of the topic: it is moved behind the others."""
        at, last = self._next_giver + 1, self._end_of_givers - 1
        self._order[at], self._order[last] = self._order[last], self._order[at]
        self._end_of_givers = last

    def _size_at(self, index: int) -> int:
        return self._sizes[self._order[index]]


class HeterogeneousAssignment:
    """An assignment in progress. Members are numbered in the order of Kafka's map.

    topics: the subscribed topics of each member. counts: partitions of each topic. current: the last target of each.
    """

    def __init__(
        self, topics: Sequence[frozenset[bytes]], counts: Mapping[bytes, int], current: Sequence[Assignment]
    ) -> None:
        subscribed = frozenset[bytes]().union(*topics)
        self._subscribers = {topic: [at for at, ids in enumerate(topics) if topic in ids] for topic in subscribed}
        self._owners = {topic: [_NO_MEMBER] * counts[topic] for topic in subscribed}
        self._sizes = [0] * len(topics)
        for member, assignment in enumerate(current):
            for topic in assignment.keys() & topics[member]:
                for index in assignment[topic]:
                    self._assign((topic, index), member)

    def compute(self) -> list[list[TopicPartitionKey]]:
        """Assign all partitions. Returns: those of each member."""
        topics = sorted(self._owners, key=self._topic_order)
        for topic in topics:
            self._assign_free_partitions(topic)
        self._balance([topic for topic in topics if len(self._subscribers[topic]) > 1])
        assigned: list[list[TopicPartitionKey]] = [[] for _ in self._sizes]
        for topic, owners in self._owners.items():
            for index, member in enumerate(owners):
                assigned[member].append((topic, index))
        return assigned

    def _topic_order(self, topic: bytes) -> tuple[float, int, int, int]:
        """Most partitions for each subscriber first, then fewest subscribers, then by id as Kafka's Uuid compares."""
        subscriber_count = len(self._subscribers[topic])
        high, low = (int.from_bytes(half, "big", signed=True) for half in (topic[:8], topic[8:]))
        return -len(self._owners[topic]) / subscriber_count, subscriber_count, high, low

    def _assign_free_partitions(self, topic: bytes) -> None:
        loads = SubscriberLoads(self._subscribers[topic], self._sizes)
        for index, owner in enumerate(self._owners[topic]):
            if owner == _NO_MEMBER:
                self._assign((topic, index), loads.next_receiver())

    def _balance(self, topics: Sequence[bytes]) -> None:
        """Balance topic after topic, until all topics since the last move were balanced."""
        last_moved: bytes | None = None
        for _ in range(_PASSES_MAX):
            for topic in topics:
                if topic == last_moved:
                    return
                if self._balance_topic(topic) or last_moved is None:
                    last_moved = topic

    def _balance_topic(self, topic: bytes) -> bool:
        """Move partitions of one topic between its subscribers. Returns: whether one was moved."""
        loads = SubscriberLoads(self._subscribers[topic], self._sizes)
        if loads.imbalance <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for index, owner in enumerate(self._owners[topic]):
            owned.setdefault(owner, []).append(index)
        has_moved = False
        while not loads.is_balanced():
            giver = loads.next_giver()
            while giver is not None and not owned.get(giver):
                loads.exclude_giver()
                giver = loads.next_giver()
            if giver is None:
                break
            index = owned[giver].pop()
            receiver = loads.next_receiver()
            if loads.is_balanced():
                break
            self._assign((topic, index), receiver)
            has_moved = True
        return has_moved

    def _assign(self, partition: TopicPartitionKey, member: int) -> None:
        topic, index = partition
        owner = self._owners[topic][index]
        if owner != _NO_MEMBER:
            self._sizes[owner] -= 1
        self._owners[topic][index] = member
        self._sizes[member] += 1
