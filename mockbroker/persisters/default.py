"""The persister: how group coordinators and share-partition leaders call the share coordinator, with retries.

Each operation is on one share partition. It is sent to the node that coordinates the share partition at that moment.
While a request of its kind is in flight to that node it waits, and is then sent in one request with all waiting
operations of its group. Source: Kafka's PersisterStateManager; share-semantics 7.6, whose pauses begin with the second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum, auto
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.coordinators.find_coordinator import NO_COORDINATOR, lookup_coordinator
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.topics import CoordinatorKind
from mockbroker.state.share.share_rules import RELEASED, ShareRules
from mockbroker.state.share_coordinator.share_coordinator import (
    ShareCoordinator,
    ShareKey,
    StateSummary,
    StateWrite,
    StoredState,
)

if TYPE_CHECKING:
    from random import Random

    from mockbroker.cluster_services.inter_broker import InterBrokerChannel
    from mockbroker.coordinators.share.share_state_log import ShareStateLog
    from mockbroker.state.metadata.cluster_image import ClusterImage
    from mockbroker.state.share.pending_write import PendingWrite
    from mockbroker.state.share.share_partition import SharePartition
    from mockbroker.state.storage.hidden_batches import HiddenBatches

T = TypeVar("T")
Callback = Callable[[T | KafkaError, int], None]
WriteCallback = Callable[[ErrorCode | None, int], None]
Outcomes = dict[ShareKey, ErrorCode | None]

_RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
#: The number of attempts of an operation, and of coordinator look-ups in a row.
TRIES_MAX = 5
_BACKOFF_MS, _BACKOFF_MAX_MS, _JITTER = 1_000, 30_000, 0.2


class OperationKind(IntEnum):
    """The kinds of operations; each is a request of its own, one of which at a time is in flight to a node."""

    INITIALIZE = auto()
    READ = auto()
    WRITE = auto()
    DELETE = auto()
    SUMMARY = auto()


class Operation(msgspec.Struct, eq=False):
    """One operation on one share partition. lookup_failures, failures: in a row, so far."""

    kind: OperationKind
    key: ShareKey
    run: Callable[[ShareCoordinator, int], Any]
    done: Callable[[Any, int], None]
    lookup_failures: int = 0
    failures: int = 0


_Answers = dict[ShareKey, Any]
#: The node and the kind of a request.
_Target = tuple[int, OperationKind]


class ShareCoordinatorNode(Protocol):
    """What the persister requires of the broker that coordinates a share partition."""

    node_id: int

    @property
    def share_state_log(self) -> ShareStateLog:
        """The log of the share coordinator's topic."""
        ...


class _Request:
    """The operations of one request, at its target node; the answer is sent when all of them are committed."""

    def __init__(self, operations: list[Operation]) -> None:
        self._operations = operations
        self._node: ShareCoordinatorNode | None = None
        self._received_ms = 0
        self._answers: _Answers = {}
        self._written: dict[ShareKey, Any] = {}

    def handle(self, node: ShareCoordinatorNode, now_ms: int) -> _Answers:
        """Run every operation once, then wait until they are committed.

        Raises: NotReady; NETWORK_EXCEPTION when the node has been restarted meanwhile.
        """
        log = node.share_state_log
        if self._node is None:
            self._node, self._received_ms = node, now_ms
            for operation in self._operations:
                # Where a request contains a share partition twice, the answer has one row for it, the later one.
                run = partial(operation.run, log.coordinator, now_ms)
                self._answers[operation.key], self._written[operation.key] = log.execute(run, operation.key)
        if node is not self._node:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"node {node.node_id} was restarted")
        written_by_key = self._written
        for key, written in written_by_key.items():
            if written is not None:
                error = log.replication_error(written, since_ms=self._received_ms, now_ms=now_ms)
                if error is not None:
                    self._answers[key] = error
                written_by_key[key] = None  # The keys stay the same.
        return self._answers


#: The leader's error for each error of the coordinator; any other one becomes UNKNOWN_SERVER_ERROR (2.1).
_LEADER_CODES: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


def leader_error(error: KafkaError) -> ErrorCode:
    """The error code that a share-partition leader returns for an error of the share coordinator."""
    return _LEADER_CODES.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR)


class Persister:
    """One node's client of the share coordinators. Every `done(outcome, now_ms)` is called once, asynchronously."""

    def __init__(
        self,
        channel: InterBrokerChannel[ShareCoordinatorNode],
        metadata: ClusterImage,
        rng: Random,
        rules: ShareRules = RELEASED,
    ) -> None:
        self._channel = channel
        self._retriable = _RETRIABLE - {rules.state.missing_state_error}  # A missing state is a final answer.
        self._metadata = metadata
        self._rng = rng
        self._is_closed = False
        self._is_working = False
        self._queue: deque[Operation] = deque()
        self._batches: dict[_Target, dict[str, list[Operation]]] = {}
        self._in_flight: set[_Target] = set()

    def close(self) -> None:
        """The node has ended: nothing is retried, and answers to requests in flight are dropped."""
        self._is_closed = True

    def initialize_states(
        self, key: ShareKey, *, state_epoch: int, start_offset: int = -1, done: Callback[None], now_ms: int
    ) -> None:
        """Initialize a share partition at a start offset; -1: the group's reset strategy decides."""

        def run(coordinator: ShareCoordinator, at_ms: int) -> None:
            coordinator.initialize_state(key, state_epoch=state_epoch, start_offset=start_offset, now_ms=at_ms)

        self._enqueue(Operation(OperationKind.INITIALIZE, key, run, done), now_ms)

    def initialize_all(
        self,
        group_id: str,
        partitions: Mapping[bytes, Iterable[int]],
        *,
        state_epoch: int,
        done: Callable[[Outcomes, int], None],
        now_ms: int,
        starts: Mapping[bytes, int] = MappingProxyType({}),
    ) -> None:
        """Initialize several share partitions of a group; `done` gets each one's error, or None, after all answers.

        starts: start offset by topic, where the reset strategy does not decide.
        """
        keys = [ShareKey(group_id, topic_id, index) for topic_id, indexes in partitions.items() for index in indexes]
        outcomes: Outcomes = {}

        def callback_for(key: ShareKey) -> Callback[None]:
            def add_outcome(answer: KafkaError | None, at_ms: int) -> None:
                outcomes[key] = answer.code if isinstance(answer, KafkaError) else None
                if len(outcomes) == len(keys):
                    done(outcomes, at_ms)

            return add_outcome

        for key in keys:
            start = starts.get(key.topic_id, -1)
            on_done = callback_for(key)
            self.initialize_states(key, state_epoch=state_epoch, start_offset=start, done=on_done, now_ms=now_ms)

    def read_states(self, key: ShareKey, *, leader_epoch: int, done: Callback[StoredState], now_ms: int) -> None:
        """Read the stored state of a share partition, for its leader."""

        def run(coordinator: ShareCoordinator, at_ms: int) -> StoredState:
            return coordinator.read_state(key, leader_epoch=leader_epoch, now_ms=at_ms)

        self._enqueue(Operation(OperationKind.READ, key, run, done), now_ms)

    def write_states(self, key: ShareKey, written: StateWrite, *, done: Callback[None], now_ms: int) -> None:
        """Store the state changes of a share-partition leader."""

        def run(coordinator: ShareCoordinator, at_ms: int) -> None:
            coordinator.write_state(key, written, now_ms=at_ms)

        self._enqueue(Operation(OperationKind.WRITE, key, run, done), now_ms)

    def delete_states(self, key: ShareKey, *, done: Callback[None], now_ms: int) -> None:
        """Delete the stored state of a share partition."""

        def run(coordinator: ShareCoordinator, at_ms: int) -> None:
            coordinator.delete_state(key, now_ms=at_ms)

        self._enqueue(Operation(OperationKind.DELETE, key, run, done), now_ms)

    def read_summary(self, key: ShareKey, *, done: Callback[StateSummary], now_ms: int) -> None:
        """Read the stored start offset and delivery-complete count."""

        def run(coordinator: ShareCoordinator, _at_ms: int) -> StateSummary:
            return coordinator.read_summary(key)

        self._enqueue(Operation(OperationKind.SUMMARY, key, run, done), now_ms)

    def send_write(
        self, partition: SharePartition, write: PendingWrite, now_ms: int, done: WriteCallback | None = None
    ) -> None:
        """Store a pending write of a share partition and complete it there; `done` gets the error for the client."""
        key = ShareKey(partition.group_id, partition.topic_id, partition.partition_index)

        def complete(answer: KafkaError | None, at_ms: int) -> None:
            error = leader_error(answer) if isinstance(answer, KafkaError) else None
            partition.complete_write(write, error, now_ms=at_ms)
            if done is not None:
                done(error, at_ms)

        written = StateWrite(
            write.state_epoch, write.leader_epoch, write.start_offset, write.delivery_complete_count, write.batches
        )
        self.write_states(key, written, done=complete, now_ms=now_ms)

    def record_initial_start(
        self, key: ShareKey, start: int, *, state_epoch: int, leader_epoch: int, now_ms: int
    ) -> None:
        """A leader has determined the start offset of a share partition.

        Nothing is sent here: the first write stores it at the share coordinator.
        """

    def hidden_batches(self, key: ShareKey) -> HiddenBatches | None:
        """The offsets of the log that store share state and are never in flight; none with this persister."""
        return None

    # Sending. One call of `_process_queue` does the work of one or more rounds of Kafka's send thread.

    def _enqueue(self, operation: Operation, now_ms: int) -> None:
        self._queue.append(operation)
        if not self._is_working:
            self._process_queue(now_ms)

    def _process_queue(self, now_ms: int) -> None:
        """Take the operations from the queue one by one, and send the collected batches after each of them."""
        if self._is_closed:
            return
        self._is_working = True
        if self._batches:
            self._send_batches(now_ms)
        while self._queue:
            operation = self._queue.popleft()
            node_id = self._known_coordinator(operation.key)
            if node_id == NO_COORDINATOR:
                self._find_coordinator(operation, now_ms)
            else:
                self._add_to_batch(operation, node_id)
                self._send_batches(now_ms)
        self._is_working = False

    def _known_coordinator(self, key: ShareKey) -> int:
        if self._metadata.is_cold and not self._metadata.has_internal_topic(CoordinatorKind.SHARE):
            return NO_COORDINATOR
        return self._metadata.find_coordinator_partition(CoordinatorKind.SHARE, str(key)).leader

    def _add_to_batch(self, operation: Operation, node_id: int) -> None:
        target = (node_id, operation.kind)
        self._batches.setdefault(target, {}).setdefault(operation.key.group_id, []).append(operation)

    def _find_coordinator(self, operation: Operation, now_ms: int) -> None:
        """Send FindCoordinator to any broker, which also creates the coordinator's topic."""

        def handle(_node: ShareCoordinatorNode, at_ms: int) -> int:
            key = str(operation.key)
            node_id = lookup_coordinator(self._metadata, self._channel, CoordinatorKind.SHARE, key, now_ms=at_ms)
            if node_id == NO_COORDINATOR:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no broker coordinates {key}")
            return node_id

        def on_answer(answer: int | KafkaError, at_ms: int) -> None:
            if self._is_closed:
                return
            operation.lookup_failures += 1
            if isinstance(answer, KafkaError):
                self._retry_or_finish(operation, answer, operation.lookup_failures, at_ms)
            else:
                operation.lookup_failures = 0
                self._add_to_batch(operation, answer)
            self._process_queue(at_ms)

        live_nodes = [node_id for node_id in self._metadata.node_ids if node_id not in self._metadata.fenced]
        if not live_nodes:
            # Not tried again. Source: Kafka's PersisterStateManager.SendThread.generateRequests.
            error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "all brokers are fenced")
            self._channel.schedule(0, partial(self._finish_unsent, operation, error), now_ms=now_ms)
            return
        self._channel.call(to=self._rng.choice(live_nodes), handle=handle, done=on_answer, now_ms=now_ms)

    def _finish_unsent(self, operation: Operation, error: KafkaError, now_ms: int) -> None:
        if not self._is_closed:
            operation.done(error, now_ms)

    def _send_batches(self, now_ms: int) -> None:
        """Send the waiting operations of each node and kind that has no request in flight: one request per group."""
        idle_targets = [target for target in self._batches if target not in self._in_flight]
        for target in idle_targets:
            self._in_flight.add(target)
            for operations in self._batches.pop(target).values():
                self._send_batch(target, operations, now_ms)

    def _send_batch(self, target: _Target, operations: list[Operation], now_ms: int) -> None:
        def on_answers(answers: _Answers | KafkaError, at_ms: int) -> None:
            if self._is_closed:
                return
            # The first answer, of any group, already allows the next request, as in Kafka.
            self._in_flight.discard(target)
            self._is_working = True
            for operation in operations:
                answer = answers if isinstance(answers, KafkaError) else answers[operation.key]
                # Requests that wait for one row are answered before the next row is handled.
                self._channel.schedule(0, partial(self._handle_answer, operation, answer), now_ms=at_ms)
            self._channel.schedule(0, self._process_queue, now_ms=at_ms)

        self._channel.call(to=target[0], handle=_Request(operations).handle, done=on_answers, now_ms=now_ms)

    def _handle_answer(self, operation: Operation, answer: Any, now_ms: int) -> None:
        if self._is_closed:
            return
        operation.failures += 1
        if isinstance(answer, KafkaError):
            self._retry_or_finish(operation, answer, operation.failures, now_ms)
        else:
            operation.done(answer, now_ms)

    def _retry_or_finish(self, operation: Operation, error: KafkaError, failures: int, now_ms: int) -> None:
        if error.code not in self._retriable or failures >= TRIES_MAX:
            operation.done(error, now_ms)
            return

        def retry(at_ms: int) -> None:
            if not self._is_closed:
                self._enqueue(operation, at_ms)

        self._channel.schedule(backoff_ms(failures, self._rng), retry, now_ms=now_ms)


def backoff_ms(failures: int, rng: Random) -> int:
    """The back-off after this many failures: two seconds after the first, then doubling, with random jitter."""
    jitter = rng.uniform(1 - _JITTER, 1 + _JITTER)
    return min(_BACKOFF_MAX_MS, int(min(_BACKOFF_MS << failures, _BACKOFF_MAX_MS) * jitter))
