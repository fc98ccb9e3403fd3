"""The persister: how group coordinators and share-partition leaders reach the share coordinator, with its retries.

Each operation is on one share partition. It goes to the node that coordinates the share partition at that moment; while
a message of its kind is under way to that node it waits, and then travels with all that has gathered of its group.
Source: Kafka's PersisterStateManager; share-semantics 7.6, whose pauses begin with the second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.coordinators.first_use import NOBODY, find
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share_coordinator import ShareCoordinator, ShareKey, Stored, Summary, Written
from mockbroker.state.share_rules import RELEASED, ShareRules
from mockbroker.state.topics import CoordinatorKind

if TYPE_CHECKING:
    from random import Random

    from mockbroker.calls import Calls
    from mockbroker.node import Node
    from mockbroker.state.hidden import Hidden
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
#: How often anything is tried, and how often a coordinator is looked for in a row.
TRIES_MAX = 5
_BACKOFF_MS, _BACKOFF_MAX_MS, _JITTER = 1_000, 30_000, 0.2


class Kind(Enum):
    """What is asked; each kind is a request of its own, of which one at a time is under way to a node."""

    INITIALIZE = auto()
    READ = auto()
    WRITE = auto()
    DELETE = auto()
    SUMMARY = auto()


class Task(msgspec.Struct, eq=False):
    """One operation on one share partition. searches, tries: without success so far."""

    kind: Kind
    key: ShareKey
    operation: Callable[[ShareCoordinator, int], Any]
    done: Callable[[Any, int], None]
    searches: int = 0
    tries: int = 0


_Answers = dict[ShareKey, Any]


class _Delivery:
    """What one message asks for, at the node that it has come to; the answer leaves when all of it is committed."""

    def __init__(self, tasks: list[Task]) -> None:
        self._tasks = tasks
        self._node: Node | None = None
        self._since_ms = 0
        self._answers: _Answers = {}
        self._written: dict[ShareKey, Any] = {}

    def handle(self, node: Node, now_ms: int) -> _Answers:
        """Do everything once, and then wait. Raises: Unsettled, NETWORK_EXCEPTION when the node has died meanwhile."""
        log = node.share_state_log
        if self._node is None:
            self._node, self._since_ms = node, now_ms
            for task in self._tasks:
                # Where a message asks twice for a share partition there is one row about it, the later one.
                operation = partial(task.operation, log.coordinator, now_ms)
                key = None if task.kind is Kind.SUMMARY else task.key
                self._answers[task.key], self._written[task.key] = log.do(operation, key)
        if node is not self._node:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"node {node.node_id} was started anew")
        for key, written in list(self._written.items()):
            if written is not None:
                error = log.error_of(written, since_ms=self._since_ms, now_ms=now_ms)
                self._answers[key] = self._answers[key] if error is None else error
                self._written[key] = None
        return self._answers


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

    def __init__(self, calls: Calls, metadata: Metadata, rng: Random, rules: ShareRules = RELEASED) -> None:
        self._calls = calls
        self._retried = _RETRIED - {rules.unknown_state}  # That there is no state is an answer.
        self._metadata = metadata
        self._rng = rng
        self._is_closed = False
        self._is_working = False
        self._queue: deque[Task] = deque()
        self._gathered: dict[tuple[int, Kind], dict[str, list[Task]]] = {}
        self._under_way: set[tuple[int, Kind]] = set()

    def close(self) -> None:
        """The node has ended: what is under way is not asked for again, and nobody is there for its answers."""
        self._is_closed = True

    def initialize(
        self, key: ShareKey, *, state_epoch: int, start_offset: int = -1, done: Done[None], now_ms: int
    ) -> None:
        """Have a share partition begin anew at a start offset; -1 leaves it to the group's reset strategy."""

        def ask(coordinator: ShareCoordinator, at_ms: int) -> None:
            coordinator.initialize(key, state_epoch=state_epoch, start_offset=start_offset, now_ms=at_ms)

        self._ask(Kind.INITIALIZE, key, ask, done, now_ms)

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
        """Initialize several share partitions of a group; `done` gets each one's error, or None, once all are back.

        starts: by topic, where its partitions begin, if that is not left to the reset strategy.
        """
        keys = [ShareKey(group_id, topic_id, index) for topic_id, indexes in partitions.items() for index in indexes]
        outcomes: Outcomes = {}

        def one_done(key: ShareKey) -> Done[None]:
            def note(answer: KafkaError | None, at_ms: int) -> None:
                outcomes[key] = answer.code if isinstance(answer, KafkaError) else None
                if len(outcomes) == len(keys):
                    done(outcomes, at_ms)

            return note

        for key in keys:
            start = starts.get(key.topic_id, -1)
            self.initialize(key, state_epoch=state_epoch, start_offset=start, done=one_done(key), now_ms=now_ms)

    def read(self, key: ShareKey, *, leader_epoch: int, done: Done[Stored], now_ms: int) -> None:
        """The stored state of a share partition, for its leader."""
        self._ask(
            Kind.READ, key, lambda room, at_ms: room.read(key, leader_epoch=leader_epoch, now_ms=at_ms), done, now_ms
        )

    def write(self, key: ShareKey, written: Written, *, done: Done[None], now_ms: int) -> None:
        """Have what a leader has settled stored."""
        self._ask(Kind.WRITE, key, lambda room, at_ms: room.write(key, written, now_ms=at_ms), done, now_ms)

    def delete(self, key: ShareKey, *, done: Done[None], now_ms: int) -> None:
        """Have a share partition forgotten."""
        self._ask(Kind.DELETE, key, lambda room, at_ms: room.delete(key, now_ms=at_ms), done, now_ms)

    def summary(self, key: ShareKey, *, done: Done[Summary], now_ms: int) -> None:
        """Start offset and delivery-complete count as stored."""
        self._ask(Kind.SUMMARY, key, lambda room, at_ms: room.summary(key), done, now_ms)

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

    def decided(self, key: ShareKey, start: int, *, state_epoch: int, leader_epoch: int, now_ms: int) -> None:
        """A leader has found out where a share partition begins; the share coordinator learns it by the first write."""

    def hidden(self, key: ShareKey, node: Node) -> Hidden | None:
        """The offsets of the log that hold state, and are never in flight; none here."""
        return None

    # The way there. What Kafka's send thread does in a round, a call of `_work` does as long as there is anything.

    def _ask(
        self,
        kind: Kind,
        key: ShareKey,
        operation: Callable[[ShareCoordinator, int], T],
        done: Done[T],
        now_ms: int,
    ) -> None:
        self._enqueue(Task(kind, key, operation, done), now_ms)

    def _enqueue(self, task: Task, now_ms: int) -> None:
        self._queue.append(task)
        if not self._is_working:
            self._work(now_ms)

    def _work(self, now_ms: int) -> None:
        """Take one task after the other from the queue, and send what has gathered after each of them."""
        if self._is_closed:
            return
        self._is_working = True
        self._send_gathered(now_ms)
        while self._queue:
            task = self._queue.popleft()
            node_id = self._known_coordinator(task.key)
            if node_id == NOBODY:
                self._search(task, now_ms)
            else:
                self._gather(task, node_id)
                self._send_gathered(now_ms)
        self._is_working = False

    def _known_coordinator(self, key: ShareKey) -> int:
        if self._metadata.is_cold and not self._metadata.has_internal_topic(CoordinatorKind.SHARE):
            return NOBODY
        return self._metadata.coordinator_for(CoordinatorKind.SHARE, str(key))

    def _gather(self, task: Task, node_id: int) -> None:
        self._gathered.setdefault((node_id, task.kind), {}).setdefault(task.key.group_id, []).append(task)

    def _search(self, task: Task, now_ms: int) -> None:
        """Ask any broker who coordinates a share partition; that also has the topic made."""

        def handle(_node: Node, at_ms: int) -> int:
            node_id = find(self._metadata, self._calls, CoordinatorKind.SHARE, str(task.key), now_ms=at_ms)
            if node_id == NOBODY:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"nobody coordinates {task.key}")
            return node_id

        def found(answer: int | KafkaError, at_ms: int) -> None:
            if self._is_closed:
                return
            task.searches += 1
            if isinstance(answer, KafkaError):
                self._again_or_done(task, answer, task.searches, at_ms)
            else:
                task.searches = 0
                self._gather(task, answer)
            self._work(at_ms)

        living = [node_id for node_id in self._metadata.node_ids if node_id not in self._metadata.fenced]
        self._calls.call(to=self._rng.choice(living), handle=handle, done=found, now_ms=now_ms)

    def _send_gathered(self, now_ms: int) -> None:
        """Send what waits for a node that nothing of its kind is under way to: one message for each group."""
        free = [lane for lane in self._gathered if lane not in self._under_way]
        for lane in free:
            self._under_way.add(lane)
            for tasks in self._gathered.pop(lane).values():
                self._send(lane, tasks, now_ms)

    def _send(self, lane: tuple[int, Kind], tasks: list[Task], now_ms: int) -> None:
        delivery = _Delivery(tasks)

        def back(answers: _Answers | KafkaError, at_ms: int) -> None:
            if self._is_closed:
                return
            # The first of several groups' answers frees the way already, as in Kafka.
            self._under_way.discard(lane)
            self._is_working = True
            for task in tasks:
                answer = answers if isinstance(answers, KafkaError) else answers[task.key]
                # Whoever waits for one row is answered before the next one is looked at.
                self._calls.later(0, partial(self._judge, task, answer), now_ms=at_ms)
            self._calls.later(0, self._work, now_ms=at_ms)

        self._calls.call(to=lane[0], handle=delivery.handle, done=back, now_ms=now_ms)

    def _judge(self, task: Task, answer: Any, now_ms: int) -> None:
        if self._is_closed:
            return
        task.tries += 1
        if isinstance(answer, KafkaError):
            self._again_or_done(task, answer, task.tries, now_ms)
        else:
            task.done(answer, now_ms)

    def _again_or_done(self, task: Task, error: KafkaError, failures: int, now_ms: int) -> None:
        if error.code not in self._retried or failures >= TRIES_MAX:
            task.done(error, now_ms)
            return

        def again(at_ms: int) -> None:
            if not self._is_closed:
                self._enqueue(task, at_ms)

        self._calls.later(backoff_ms(failures, self._rng), again, now_ms=now_ms)


def backoff_ms(failures: int, rng: Random) -> int:
    """How long to wait after so many failures: two seconds after the first, doubling, with some chance in it."""
    spread = rng.uniform(1 - _JITTER, 1 + _JITTER)
    return min(_BACKOFF_MAX_MS, int(min(_BACKOFF_MS << failures, _BACKOFF_MAX_MS) * spread))
