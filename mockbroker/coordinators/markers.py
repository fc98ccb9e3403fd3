"""Transaction markers on their way: from the coordinator to the leaders of all partitions of a transaction.

Source: Kafka's TransactionMarkerChannelManager and KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.transaction import Place
from mockbroker.state.transactions import Ending, Transactions

if TYPE_CHECKING:
    from mockbroker.calls import Calls
    from mockbroker.node import Node
    from mockbroker.state.metadata import Metadata

OFFSETS_TOPIC = "__consumer_offsets"
#: How soon a marker is tried again that found no leader, or whose answer was lost. Kafka's sender has one request at a
#: time under way to a broker, asks again for just the partitions that failed, and connects anew after 50 ms; the leader
#: writes the marker each time (TransactionMarkerRequestCompletionHandler, ProducerAppendInfo.checkProducerEpoch).
_RETRY_MS = 100
_RETRIED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


def write_marker(node: Node, metadata: Metadata, ending: Ending, place: Place, *, now_ms: int) -> None:
    """End a producer's transaction in a partition that this node leads; in an offsets partition, with its offsets.

    Raises: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
    """
    topic = metadata.topic(place.topic)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if place.topic == OFFSETS_TOPIC and place.partition_index in node.group_log.loading:
        # The transaction coordinator does not expect to hear of a group coordinator's loading.
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    node.logs.get(topic.topic_id, place.partition_index).append_marker(
        commit=ending.commit,
        producer_id=ending.holder.producer_id,
        producer_epoch=ending.holder.epoch,
        coordinator_epoch=ending.coordinator_epoch,
        now_ms=now_ms,
        transaction_version=ending.version,
    )
    if place.topic == OFFSETS_TOPIC:
        node.offsets.end_transaction(place.partition_index, ending.holder.producer_id, commit=ending.commit)


class Markers:
    """One coordinator's way to the partitions; `Transactions` is told of every marker that is written."""

    def __init__(self, calls: Calls, metadata: Metadata) -> None:
        self._calls = calls
        self._metadata = metadata

    def send(self, room: Transactions, ending: Ending, places: frozenset[Place], now_ms: int) -> None:
        """Have the markers of a transaction written, each by a message of its own, until nobody wants them."""
        for place in sorted(places):
            self._send(room, ending, place, now_ms)

    def _send(self, room: Transactions, ending: Ending, place: Place, now_ms: int) -> None:
        topic = self._metadata.topic(place.topic)
        partition = topic.partition(place.partition_index) if topic else None
        if partition is None:
            # The topic has been deleted, and its part of the transaction with it.
            self._calls.later(0, lambda at_ms: room.written(ending, place, now_ms=at_ms), now_ms=now_ms)
            return
        if partition.leader < 0:
            self._retry(room, ending, place, now_ms)
            return

        def handle(node: Node, at_ms: int) -> None:
            write_marker(node, self._metadata, ending, place, now_ms=at_ms)

        def judge(answer: KafkaError | None, at_ms: int) -> None:
            if not isinstance(answer, KafkaError):
                room.written(ending, place, now_ms=at_ms)
            elif answer.code in _RETRIED:
                self._retry(room, ending, place, at_ms)
            # Anything else says that a newer producer or coordinator is at work there: Kafka 4.3.0 drops the marker,
            # and the transaction stays as it is.

        self._calls.call(to=partition.leader, handle=handle, done=judge, now_ms=now_ms)

    def _retry(self, room: Transactions, ending: Ending, place: Place, now_ms: int) -> None:
        def again(at_ms: int) -> None:
            if room.is_sending(ending):
                self._send(room, ending, place, at_ms)

        self._calls.later(_RETRY_MS, again, now_ms=now_ms)
