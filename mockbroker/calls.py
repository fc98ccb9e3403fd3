"""Messages between the nodes of the cluster: law 6, nothing reaches into another node's state.

A call is put on one queue and handled on its target by a later `advance`; the answer travels back the same way.
So a client can see what it sees in Kafka: records in transition while a write is under way, an initialisation
that comes after the heartbeat's answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

if TYPE_CHECKING:
    from mockbroker.node import Node

T = TypeVar("T")
#: How soon who has no answer yet is asked again.
_LOOK_AGAIN_MS = 20
Action = Callable[[int], None]


class Loss(Enum):
    """Which half of a call never arrives: the connection breaks on the way out, or on the way back."""

    REQUEST = auto()
    ANSWER = auto()


class Unsettled(Exception):
    """Raised by who handles a call and has no answer yet: it is to be asked again in a moment."""


class Fate(NamedTuple):
    """How one call fares: milliseconds out and back, and what is lost; the caller learns of a loss when it is back."""

    out_ms: int
    back_ms: int
    loss: Loss | None = None


class _Letter(Generic[T]):
    """One call on its way out, and its answer on the way home."""

    __slots__ = ("done", "fate", "handle", "queue", "to")

    def __init__(
        self,
        queue: Calls,
        to: int,
        handle: Callable[[Node, int], T],
        done: Callable[[T | KafkaError, int], None],
        fate: Fate,
    ) -> None:
        self.queue = queue
        self.to = to
        self.handle = handle
        self.done = done
        self.fate = fate

    def deliver(self, now_ms: int) -> None:
        answer: T | KafkaError = KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection to node {self.to} broke")
        if self.fate.loss is not Loss.REQUEST:
            try:
                handled = self._handle(now_ms)
            except Unsettled:
                self.queue.later(_LOOK_AGAIN_MS, self.deliver, now_ms=now_ms)
                return
            if self.fate.loss is None:
                answer = handled
        self.queue.later(self.fate.back_ms, lambda at: self.done(answer, at), now_ms=now_ms)

    def _handle(self, now_ms: int) -> T | KafkaError:
        node = self.queue.nodes.get(self.to)
        if node is None:
            return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"node {self.to} is not running")
        try:
            return self.handle(node, now_ms)
        except KafkaError as refusal:
            return refusal


class Calls:
    """The cluster's own queue of messages, in order of time and then of sending.

    nodes: those that run; a call to another one is answered with NETWORK_EXCEPTION.
    latency_ms: how long a message travels, milliseconds of the cluster's clock, each way. fate: decides instead, for
    each call by target and time; the simulator's weather. loading_ms: how long a node takes to load a partition of a
    coordinator's topic, by node and time; as long as a message's way at first.
    """

    def __init__(self, nodes: dict[int, Node], *, latency_ms: int = 0) -> None:
        self.nodes = nodes
        self.latency_ms = latency_ms
        self.fate: Callable[[int, int], Fate] = lambda to, now_ms: Fate(self.latency_ms, self.latency_ms)
        self.loading_ms: Callable[[int, int], int] = lambda node_id, now_ms: self.latency_ms
        self._queue: list[tuple[int, int, Action]] = []
        self._sent = 0

    def call(
        self,
        *,
        to: int,
        handle: Callable[[Node, int], T],
        done: Callable[[T | KafkaError, int], None],
        now_ms: int,
    ) -> None:
        """Have `handle(node, now_ms)` run on node `to`, and `done(answer, now_ms)` here when the answer is back.

        A `KafkaError` that `handle` raises arrives at `done` as a value.
        """
        fate = self.fate(to, now_ms)
        letter = _Letter(self, to, handle, done, fate)
        self.later(fate.out_ms, letter.deliver, now_ms=now_ms)

    def later(self, delay_ms: int, action: Action, *, now_ms: int) -> None:
        """Have `action(now_ms)` run `delay_ms` from now: a retry after its back-off, or a message on its way."""
        self._sent += 1
        heapq.heappush(self._queue, (now_ms + delay_ms, self._sent, action))

    def next_deadline_ms(self) -> int | None:
        """When the next message arrives, or None."""
        return self._queue[0][0] if self._queue else None

    def expire(self, *, now_ms: int, after_each: Callable[[], None] = lambda: None) -> None:
        """Deliver what has arrived by now. What a delivery sends waits for the next call, even with no latency.

        after_each: whoever a message wakes has its turn before the next one is delivered. A fetch that waits for two
        share-partitions to be loaded is so answered with the first one alone, as by a real broker.
        """
        arrived = []
        while self._queue and self._queue[0][0] <= now_ms:
            arrived.append(heapq.heappop(self._queue)[2])
        for action in arrived:
            action(now_ms)
            after_each()
