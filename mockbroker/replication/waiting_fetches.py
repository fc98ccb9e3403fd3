"""`WaitingFetches`: the fetches of followers that wait at the leader for records. Source: Kafka's DelayedFetch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kwire.error_codes import ErrorCode
from mockbroker.cluster_services.inter_broker import DelayedAnswer, InterBrokerChannel
from mockbroker.kafka_error import KafkaError
from mockbroker.replication.fetch_messages import FetchedPartition, FollowerFetch
from mockbroker.state.metadata.topics import TopicPartitionKey

#: Reads the partitions of a request without recording that it was sent.
ReadAgain = Callable[[FollowerFetch], Sequence[FetchedPartition]]


class WaitingFetches:
    """The waiting requests of one leader, oldest first. read_again: for the answer. All times are of the cluster."""

    def __init__(self, channel: InterBrokerChannel[object], node_id: int, read_again: ReadAgain) -> None:
        self._channel = channel
        self._node_id = node_id
        self._read_again = read_again
        self._waiting: dict[DelayedAnswer, FollowerFetch] = {}
        self._changed: set[TopicPartitionKey] = set()

    def add(self, request: FollowerFetch, *, now_ms: int) -> DelayedAnswer:
        """Let a request wait, `wait_max_ms` at most."""
        answer = DelayedAnswer()
        self._waiting[answer] = request
        expire = partial(self._answer_one, answer)
        self._channel.schedule(request.limits.wait_max_ms, expire, now_ms=now_ms, owner=self._node_id)
        return answer

    def mark_changed(self, key: TopicPartitionKey, *, now_ms: int) -> None:
        """A partition has more records, or another leader: the requests for it are looked at right after this."""
        if not self._waiting:
            return
        if not self._changed:
            self._channel.schedule(0, self._answer_changed, now_ms=now_ms, owner=self._node_id)
        self._changed.add(key)

    def close(self, *, now_ms: int) -> None:
        """The broker has ended: connections break."""
        waiting, self._waiting = self._waiting, {}
        for answer in waiting:
            answer.send(KafkaError(ErrorCode.NETWORK_EXCEPTION, f"node {self._node_id} has ended"), now_ms)

    def _answer_changed(self, now_ms: int) -> None:
        changed, self._changed = self._changed, set()
        for answer, request in list(self._waiting.items()):
            if changed.isdisjoint(wanted.key for wanted in request.partitions):
                continue
            rows = self._read_again(request)
            if is_complete(rows, request.limits.bytes_min):
                del self._waiting[answer]
                answer.send(rows, now_ms)

    def _answer_one(self, answer: DelayedAnswer, now_ms: int) -> None:
        request = self._waiting.pop(answer, None)
        if request is not None:
            answer.send(self._read_again(request), now_ms)


def is_complete(rows: Sequence[FetchedPartition], bytes_min: int) -> bool:
    """Whether a response is sent without waiting for more."""
    return any(row.is_urgent for row in rows) or sum(row.size for row in rows) >= bytes_min
