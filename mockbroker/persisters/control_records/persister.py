"""Persister that stores share state in the log of the topic-partition itself, on its leader.

For the edition `kip932-r2`, and `--share-persister control-records`. Operations of one moment are sent in one message,
and their writes become one control record for each share partition.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from kwire.error_codes import ErrorCode
from mockbroker.coordinators.share.share_state_log import LogPosition
from mockbroker.kafka_error import KafkaError
from mockbroker.persisters.control_records.control_log import ShareControlLog
from mockbroker.persisters.control_records.recorded_state import unrecorded_states
from mockbroker.persisters.default import Operation, OperationKind, Persister, ShareCoordinatorNode, WriteCallback
from mockbroker.state.share.share_rules import RELEASED, ShareRules

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from mockbroker.cluster_services.inter_broker import InterBrokerChannel
    from mockbroker.state.metadata.cluster_image import ClusterImage
    from mockbroker.state.metadata.topics import TopicPartitionKey
    from mockbroker.state.share.pending_write import PendingWrite
    from mockbroker.state.share.share_partition import SharePartition
    from mockbroker.state.share_coordinator.share_coordinator import ShareKey
    from mockbroker.state.storage.hidden_batches import HiddenBatches


class ControlLogNode(ShareCoordinatorNode, Protocol):
    """What this persister requires of the broker that leads a topic-partition."""

    @property
    def share_control_log(self) -> ShareControlLog:
        """The share state in the logs that the broker leads."""
        ...


class _Request:
    """One request to the leader of a topic-partition; the answer is sent when all replicas have its record."""

    def __init__(self, operations: list[Operation]) -> None:
        self._operations = operations
        self._node: ControlLogNode | None = None
        self._since_ms = 0
        self._position: LogPosition | None = None
        self._answers: list[Any] = []

    def handle(self, node: ControlLogNode, now_ms: int) -> list[Any]:
        """Run all operations once, then wait. Raises: NotReady, NETWORK_EXCEPTION if the node was restarted."""
        control_log, key = node.share_control_log, self._operations[0].key
        if self._node is None:
            self._node, self._since_ms = node, now_ms
            self._answers = [_run_operation(operation, control_log, now_ms) for operation in self._operations]
            control_log.append_pending_writes()
            self._position = control_log.log_position(key)
        if node is not self._node or self._position is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"node {node.node_id} was restarted")
        control_log.require_replication(self._position, since_ms=self._since_ms, now_ms=now_ms)
        return self._answers


def _run_operation(operation: Operation, control_log: Any, now_ms: int) -> Any:
    """The result or the error of one operation. The control log has the methods of a share coordinator."""
    try:
        return operation.run(control_log, now_ms)
    except KafkaError as error:
        return error


class ControlRecordsPersister(Persister):
    """One node's client of the leaders of topic-partitions."""

    _channel: InterBrokerChannel[ControlLogNode]

    def __init__(
        self,
        channel: InterBrokerChannel[ControlLogNode],
        metadata: ClusterImage,
        rng: Random,
        rules: ShareRules = RELEASED,
        *,
        control_log: Callable[[], ShareControlLog],
    ) -> None:
        super().__init__(channel, metadata, rng, rules)
        self._control_log = control_log
        self._waiting: dict[TopicPartitionKey, list[Operation]] = {}

    def send_write(
        self, partition: SharePartition, write: PendingWrite, now_ms: int, done: WriteCallback | None = None
    ) -> None:
        """Store a write, together with earlier records whose state is not recorded yet."""
        last = max((batch.last for batch in write.batches), default=-1)
        batches = [*unrecorded_states(partition.window, last), *write.batches]
        super().send_write(partition, replace(write, batches=batches), now_ms, done)

    def record_initial_start(
        self, key: ShareKey, start: int, *, state_epoch: int, leader_epoch: int, now_ms: int
    ) -> None:
        """Write the first checkpoint of a share partition, with its start offset."""

        def record_start(control_log: Any, at_ms: int) -> None:
            control_log.record_initial_start(
                key, start, state_epoch=state_epoch, leader_epoch=leader_epoch, now_ms=at_ms
            )

        self._enqueue(Operation(OperationKind.INITIALIZE, key, record_start, lambda answer, at_ms: None), now_ms)

    def hidden_batches(self, key: ShareKey) -> HiddenBatches | None:
        """The offsets of control records in the log."""
        return self._control_log().hidden_batches(key)

    def _enqueue(self, operation: Operation, now_ms: int) -> None:
        place = (operation.key.topic_id, operation.key.partition)
        if place not in self._waiting:
            self._channel.schedule(0, partial(self._send_to_leader, place), now_ms=now_ms)
        self._waiting.setdefault(place, []).append(operation)

    def _send_to_leader(self, place: TopicPartitionKey, now_ms: int) -> None:
        operations = self._waiting.pop(place)
        if self._is_closed:
            return
        leader = self._metadata.find_partition(*place)

        def on_answers(answers: list[Any] | KafkaError, at_ms: int) -> None:
            for index, operation in enumerate(operations):
                answer = answers if isinstance(answers, KafkaError) else answers[index]
                self._handle_answer(operation, answer, at_ms)

        if leader is None or leader.leader < 0:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if leader is None else ErrorCode.NOT_COORDINATOR
            on_answers(KafkaError(code, "the topic-partition has no leader"), now_ms)
        else:
            self._channel.call(to=leader.leader, handle=_Request(operations).handle, done=on_answers, now_ms=now_ms)
