"""The persister: how group coordinators and share-partition leaders reach the share coordinator, with its retries.

Every call is a message to the node that coordinates the share partition at that moment. Kafka sends one request at a
time to each node and joins what queues up behind it; here each share partition is a message of its own, which no
client can tell apart. Source: share-semantics 7.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share_coordinator import ShareCoordinator, ShareKey, Stored, Summary, Written
from mockbroker.state.topics import CoordinatorKind

if TYPE_CHECKING:
    from random import Random

    from mockbroker.calls import Calls
    from mockbroker.node import Node
    from mockbroker.state.metadata import Metadata
    from mockbroker.state.share_partition import PendingWrite

T = TypeVar("T")
Done = Callable[[T | KafkaError, int], None]
Outcomes = dict[ShareKey, ErrorCode | None]

_RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
#: How often a refusal that may pass is followed by another try.
RETRY_MAX = 5
_BACKOFF_MS, _BACKOFF_MAX_MS, _JITTER = 1_000, 30_000, 0.2

#: What a share-partition leader makes of the coordinator's refusals; everything else is an unknown server error (2.1).
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
    """The code that a share-partition leader answers when the share coordinator refused with this error."""
    return _LEADER_CODES.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR)


class Persister:
    """One node's client of the share coordinators. Every `done(outcome, now_ms)` is called once, by a later message."""

    def __init__(self, calls: Calls, metadata: Metadata, rng: Random) -> None:
        self._calls = calls
        self._metadata = metadata
        self._rng = rng
        self._is_closed = False

    def close(self) -> None:
        """The node has ended: what is under way is not asked for again, and nobody is there for its answers."""
        self._is_closed = True

    def initialize(
        self, key: ShareKey, *, state_epoch: int, start_offset: int = -1, done: Done[None], now_ms: int
    ) -> None:
        """Have a share partition begin anew at a start offset; -1 leaves it to the group's reset strategy."""

        def ask(coordinator: ShareCoordinator, at_ms: int) -> None:
            coordinator.initialize(key, state_epoch=state_epoch, start_offset=start_offset, now_ms=at_ms)

        self._ask(key, ask, done, now_ms)

    def initialize_all(
        self,
        group_id: str,
        partitions: Mapping[bytes, Iterable[int]],
        *,
        state_epoch: int,
        done: Callable[[Outcomes, int], None],
        now_ms: int,
    ) -> None:
        """Initialize several share partitions of a group; `done` gets each one's error, or None, once all are back."""
        keys = [ShareKey(group_id, topic_id, index) for topic_id, indexes in partitions.items() for index in indexes]
        outcomes: Outcomes = {}

        def one_done(key: ShareKey) -> Done[None]:
            def note(answer: KafkaError | None, at_ms: int) -> None:
                outcomes[key] = answer.code if isinstance(answer, KafkaError) else None
                if len(outcomes) == len(keys):
                    done(outcomes, at_ms)

            return note

        for key in keys:
            self.initialize(key, state_epoch=state_epoch, done=one_done(key), now_ms=now_ms)

    def read(self, key: ShareKey, *, leader_epoch: int, done: Done[Stored], now_ms: int) -> None:
        """The stored state of a share partition, for its leader."""
        self._ask(key, lambda room, at_ms: room.read(key, leader_epoch=leader_epoch, now_ms=at_ms), done, now_ms)

    def write(self, key: ShareKey, written: Written, *, done: Done[None], now_ms: int) -> None:
        """Have what a leader has settled stored."""
        self._ask(key, lambda room, at_ms: room.write(key, written, now_ms=at_ms), done, now_ms)

    def delete(self, key: ShareKey, *, done: Done[None], now_ms: int) -> None:
        """Have a share partition forgotten."""
        self._ask(key, lambda room, at_ms: room.delete(key, now_ms=at_ms), done, now_ms)

    def summary(self, key: ShareKey, *, done: Done[Summary], now_ms: int) -> None:
        """Start offset and delivery-complete count as stored."""
        self._ask(key, lambda room, at_ms: room.summary(key), done, now_ms)

    def send(
        self, write: PendingWrite, now_ms: int, done: Callable[[ErrorCode | None, int], None] | None = None
    ) -> None:
        """Write what a share partition has settled and complete it there; then `done` gets the code for the client."""
        partition = write.partition
        key = ShareKey(partition.group_id, partition.topic_id, partition.partition_index)

        def complete(answer: KafkaError | None, at_ms: int) -> None:
            error = leader_error(answer) if isinstance(answer, KafkaError) else None
            partition.complete(write, error, now_ms=at_ms)
            if done is not None:
                done(error, at_ms)

        written = Written(
            write.state_epoch, write.leader_epoch, write.start_offset, write.delivery_complete_count, write.batches
        )
        self.write(key, written, done=complete, now_ms=now_ms)

    def _ask(
        self,
        key: ShareKey,
        operation: Callable[[ShareCoordinator, int], T],
        done: Done[T],
        now_ms: int,
        retries: int = 0,
    ) -> None:
        def handle(node: Node, at_ms: int) -> T:
            return operation(node.share_coordinator, at_ms)

        if self._is_closed:
            return

        def judge(answer: T | KafkaError, at_ms: int) -> None:
            if self._is_closed:
                return
            if not isinstance(answer, KafkaError) or answer.code not in _RETRIED or retries == RETRY_MAX:
                done(answer, at_ms)
                return
            self._calls.later(
                backoff_ms(retries, self._rng),
                lambda then_ms: self._ask(key, operation, done, then_ms, retries + 1),
                now_ms=at_ms,
            )

        node_id = self._metadata.coordinator_for(CoordinatorKind.SHARE, str(key))
        if node_id < 0:
            nobody = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"nobody coordinates {key}")
            self._calls.later(0, lambda at_ms: judge(nobody, at_ms), now_ms=now_ms)
        else:
            self._calls.call(to=node_id, handle=handle, done=judge, now_ms=now_ms)


def backoff_ms(retries: int, rng: Random) -> int:
    """How long to wait before the next try, after so many: a second, doubling, with some chance in it."""
    spread = rng.uniform(1 - _JITTER, 1 + _JITTER)
    return min(_BACKOFF_MAX_MS, round((_BACKOFF_MS << retries) * spread))
