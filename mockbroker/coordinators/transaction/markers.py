"""Sending transaction markers from the coordinator to the leaders of all partitions of a transaction.

Source: Kafka's TransactionMarkerChannelManager and KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kwire.error_codes import ErrorCode
from mockbroker.cluster_services.inter_broker import NotReady
from mockbroker.kafka_error import KafkaError
from mockbroker.state.transaction.transaction import TopicPartition
from mockbroker.state.transaction.transactions import TransactionCoordinator, TransactionEnd

if TYPE_CHECKING:
    from mockbroker.cluster_services.inter_broker import InterBrokerChannel
    from mockbroker.coordinators.group.group_log import GroupLog
    from mockbroker.state.group.committed_offsets import CommittedOffsets
    from mockbroker.state.metadata.cluster_image import ClusterImage
    from mockbroker.state.storage.log_store import NodeLogs

OFFSETS_TOPIC = "__consumer_offsets"
#: The pause before a marker is sent again that reached no leader, or whose answer was lost. Kafka's sender has one
#: request at a time in flight to a broker, retries only the partitions that failed, and reconnects after 50 ms; the
#: leader writes the marker each time. Source: TransactionMarkerRequestCompletionHandler and
#: ProducerAppendInfo.checkProducerEpoch.
_RETRY_MS = 100
_RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class MarkerTarget(Protocol):
    """What a transaction coordinator requires of the broker that leads a partition of a transaction."""

    logs: NodeLogs

    @property
    def group_log(self) -> GroupLog:
        """The partitions of the offsets topic that the broker leads."""
        ...

    @property
    def offsets(self) -> CommittedOffsets:
        """The committed offsets of the groups that the broker coordinates."""
        ...


def write_marker(
    node: MarkerTarget, metadata: ClusterImage, ending: TransactionEnd, target: TopicPartition, *, now_ms: int
) -> int:
    """End a producer's transaction in a partition that `node` leads; in an offsets partition, also for its offsets.

    Returns: the offset behind the marker.

    Raises: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED,
    KAFKA_STORAGE_ERROR.
    """
    topic = metadata.topic(target.topic)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if target.topic == OFFSETS_TOPIC and target.partition_index in node.group_log.loading:
        # COORDINATOR_LOAD_IN_PROGRESS of a group coordinator is no error that the transaction coordinator handles.
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    log = node.logs.find_log(topic.topic_id, target.partition_index)
    offset = log.append_marker(
        commit=ending.commit,
        producer_id=ending.producer.producer_id,
        producer_epoch=ending.producer.epoch,
        coordinator_epoch=ending.coordinator_epoch,
        now_ms=now_ms,
        transaction_version=ending.version,
    )
    log.storage.sync_unsynced()
    if target.topic == OFFSETS_TOPIC:
        node.offsets.end_transaction(target.partition_index, ending.producer.producer_id, commit=ending.commit)
    return offset + 1


class MarkerSender:
    """One coordinator's client of the partition leaders; it reports each written marker to `Transactions`."""

    def __init__(
        self, channel: InterBrokerChannel[MarkerTarget], metadata: ClusterImage, *, awaits_replicas: bool = False
    ) -> None:
        """Args: awaits_replicas: a marker is written when the replicas in sync have it."""
        self._channel = channel
        self._awaits_replicas = awaits_replicas
        self._metadata = metadata

    def send_markers(
        self,
        transactions: TransactionCoordinator,
        ending: TransactionEnd,
        partitions: frozenset[TopicPartition],
        now_ms: int,
    ) -> None:
        """Write the markers of a transaction, each by its own call, with retries while the transaction is ending."""
        for target in sorted(partitions):
            self._send_marker(transactions, ending, target, now_ms)

    def _send_marker(
        self, transactions: TransactionCoordinator, ending: TransactionEnd, target: TopicPartition, now_ms: int
    ) -> None:
        topic = self._metadata.topic(target.topic)
        partition = topic.partition(target.partition_index) if topic else None
        if topic is None or partition is None:
            # The topic has been deleted, and its part of the transaction with it.
            self._channel.schedule(
                0, lambda at_ms: transactions.on_marker_written(ending, target, now_ms=at_ms), now_ms=now_ms
            )
            return
        if partition.leader < 0:
            self._schedule_retry(transactions, ending, target, now_ms)
            return

        written_to: list[int] = []

        def handle(node: MarkerTarget, at_ms: int) -> None:
            """Write the marker once; where followers fetch, answer when the replicas in sync have it."""
            if not written_to:
                written_to.append(write_marker(node, self._metadata, ending, target, now_ms=at_ms))
            if self._awaits_replicas:
                log = node.logs.find_log(topic.topic_id, target.partition_index)
                if log.high_watermark < written_to[0]:
                    raise NotReady

        def on_answer(answer: KafkaError | None, at_ms: int) -> None:
            if not isinstance(answer, KafkaError):
                transactions.on_marker_written(ending, target, now_ms=at_ms)
            elif answer.code in _RETRIABLE:
                self._schedule_retry(transactions, ending, target, at_ms)
            # Any other error means that a newer producer or coordinator is active there: Kafka 4.3.0 drops the marker,
            # and the transaction stays as it is.

        self._channel.call(to=partition.leader, handle=handle, done=on_answer, now_ms=now_ms)

    def _schedule_retry(
        self, transactions: TransactionCoordinator, ending: TransactionEnd, target: TopicPartition, now_ms: int
    ) -> None:
        def retry(at_ms: int) -> None:
            if transactions.needs_markers(ending):
                self._send_marker(transactions, ending, target, at_ms)

        self._channel.schedule(_RETRY_MS, retry, now_ms=now_ms)
