"""Simulated requests between the brokers of the cluster: one queue, ordered by delivery time.

A broker reads and changes the state of another broker only through a call. A call is put on the queue and handled on
its target by a later `advance`; the answer travels back the same way. So a client observes the intermediate states that
it observes in Kafka: records in transition while a write is in flight, an initialisation that follows the heartbeat's
response.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import Enum, auto
from typing import Generic, NamedTuple, TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

T = TypeVar("T")
#: The type of a broker, or what the caller requires of one.
N = TypeVar("N")
N_co = TypeVar("N_co", covariant=True)
#: How soon a call whose handler raised NotReady is handled again.
_RETRY_MS = 20
Action = Callable[[int], None]


class Loss(Enum):
    """Which half of a call is lost: the connection breaks before the request or before the answer arrives."""

    REQUEST = auto()
    ANSWER = auto()


class NotReady(Exception):
    """Raised by the handler of a call that has no answer yet; the call is handled again shortly after."""


class Delivery(NamedTuple):
    """Latency of one call in milliseconds, request and answer, and what is lost; a loss is reported after both."""

    out_ms: int
    back_ms: int
    loss: Loss | None = None


class _PendingCall(NamedTuple, Generic[N, T]):
    """One call whose answer has not been delivered yet."""

    channel: InterBrokerChannel[N]
    to: int
    handle: Callable[[N, int], T]
    done: Callable[[T | KafkaError, int], None]
    delivery: Delivery

    def deliver(self, now_ms: int) -> None:
        answer: T | KafkaError = KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection to node {self.to} broke")
        if self.delivery.loss is not Loss.REQUEST:
            try:
                handled = self._handle(now_ms)
            except NotReady:
                self.channel.schedule(_RETRY_MS, self.deliver, now_ms=now_ms)
                return
            if self.delivery.loss is None:
                answer = handled
        self.channel.schedule(self.delivery.back_ms, lambda at: self.done(answer, at), now_ms=now_ms)

    def _handle(self, now_ms: int) -> T | KafkaError:
        node = self.channel.nodes.get(self.to)
        if node is None:
            return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"node {self.to} is not running")
        try:
            return self.handle(node, now_ms)
        except KafkaError as error:
            return error


class InterBrokerChannel(Generic[N_co]):
    """The cluster's queue of calls and scheduled actions, in order of time and then of sending.

    nodes: the running brokers; a call to another one is answered with NETWORK_EXCEPTION.
    latency_ms: one-way latency, milliseconds of the cluster's clock. plan_delivery: returns latency and loss of a call
    by its target and time; the simulator replaces it. loading_ms: how long a node takes to load a partition of a
    coordinator's topic, by node and time; by default the latency.
    """

    def __init__(self, nodes: dict[int, N_co], *, latency_ms: int = 0) -> None:
        self.nodes = nodes
        self.latency_ms = latency_ms
        self.plan_delivery: Callable[[int, int], Delivery] = self._delivery_without_loss
        self.loading_ms: Callable[[int, int], int] = lambda node_id, now_ms: self.latency_ms
        self._queue: list[tuple[int, int, Action]] = []
        self._sent_count = 0

    def _delivery_without_loss(self, _to: int, _now_ms: int) -> Delivery:
        return Delivery(self.latency_ms, self.latency_ms)

    def call(
        self, *, to: int, handle: Callable[[N_co, int], T], done: Callable[[T | KafkaError, int], None], now_ms: int
    ) -> None:
        """Run `handle(node, now_ms)` on node `to`, and `done(answer, now_ms)` here when the answer is back.

        A `KafkaError` that `handle` raises is passed to `done` as a value.
        """
        delivery = self.plan_delivery(to, now_ms)
        pending = _PendingCall(self, to, handle, done, delivery)
        self.schedule(delivery.out_ms, pending.deliver, now_ms=now_ms)

    def schedule(self, delay_ms: int, action: Action, *, now_ms: int) -> None:
        """Run `action(now_ms)` in `delay_ms`: a retry after its back-off, or the delivery of a message."""
        self._sent_count += 1
        heapq.heappush(self._queue, (now_ms + delay_ms, self._sent_count, action))

    def next_deadline_ms(self) -> int | None:
        """When the next action is due, or None."""
        return self._queue[0][0] if self._queue else None

    def expire(self, *, now_ms: int, after_each: Callable[[], None] = lambda: None) -> None:
        """Run the actions that are due. What they schedule waits for the next call, even with no latency.

        after_each: called after each action, so that requests woken by it are resumed before the next action runs. A
        fetch that waits until one of two share-partitions is loaded is therefore answered with the first one alone, as
        by a real broker.
        """
        due_actions = []
        while self._queue and self._queue[0][0] <= now_ms:
            due_actions.append(heapq.heappop(self._queue)[2])
        for action in due_actions:
            action(now_ms)
            after_each()
