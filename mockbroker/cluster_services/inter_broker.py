"""Simulated requests between the brokers of the cluster: one queue, ordered by delivery time.

A broker reads and changes the state of another broker only through a call. A call is put on the queue and handled on
its target by a later `advance`; the answer travels back the same way. So a client observes the intermediate states that
it observes in Kafka: records in transition while a write is in flight, an initialisation that follows the heartbeat's
response.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from functools import partial
from types import EllipsisType
from typing import Any, Generic, NamedTuple, TypeVar

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


class DelayedAnswer:
    """Returned by the handler of a call that is answered later, once, by `send`: the request waits at its target.

    A target that ends has to answer, as the connection breaks then.
    """

    __slots__ = ("_answer",)

    def __init__(self) -> None:
        self._answer: Callable[[object, int], None] | None = None

    def send(self, answer: object, now_ms: int) -> None:
        """Answer the call; not in the handler itself."""
        assert self._answer is not None
        self._answer(answer, now_ms)

    def on_sent(self, answer: Callable[[Any, int], None]) -> None:
        """Call this with the answer and the time."""
        self._answer = answer


class Delivery(NamedTuple):
    """Latency of one call in milliseconds, request and answer, and what is lost; a loss is reported after both."""

    out_ms: int
    back_ms: int
    loss: Loss | None = None


class _PendingCall(Generic[N, T]):
    """One call whose answer has not been delivered yet."""

    __slots__ = ("_channel", "_delivery", "_done", "_handle_call", "_is_answered", "_sender", "_to")

    def __init__(
        self,
        channel: InterBrokerChannel[N],
        to: int,
        handle: Callable[[N, int], T | DelayedAnswer],
        done: Callable[[T | KafkaError, int], None],
        delivery: Delivery,
    ) -> None:
        self._channel = channel
        self._to = to
        self._handle_call = handle
        self._done = done
        self._delivery = delivery
        self._sender = channel.acting_node
        self._is_answered = False

    def deliver(self, now_ms: int) -> None:
        """Let the target handle the call, and send the answer back."""
        channel = self._channel
        if self._to in channel.paused:
            channel.hold(self._to, self.deliver)
            channel.schedule(channel.request_timeout_ms, self._give_up, now_ms=now_ms, owner=self._sender)
            return
        if self._delivery.loss is Loss.REQUEST:
            self._answer(self._lost(), now_ms)
            return
        try:
            answer = self._handle(now_ms)
        except NotReady:
            channel.schedule(_RETRY_MS, self.deliver, now_ms=now_ms, owner=None)
            return
        if isinstance(answer, DelayedAnswer):
            answer.on_sent(self._answer)
        else:
            self._answer(answer, now_ms)

    def _answer(self, answer: T | KafkaError, now_ms: int) -> None:
        if self._delivery.loss is Loss.ANSWER:
            answer = self._lost()
        if not self._is_answered:
            self._is_answered = True
            done = partial(self._done, answer)
            self._channel.schedule(self._delivery.back_ms, done, now_ms=now_ms, owner=self._sender)

    def _lost(self) -> KafkaError:
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection to node {self._to} broke")

    def _handle(self, now_ms: int) -> T | DelayedAnswer | KafkaError:
        channel = self._channel
        node = channel.nodes.get(self._to)
        if node is None:
            return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"node {self._to} is not running")
        before, channel.acting_node = channel.acting_node, self._to
        try:
            return self._handle_call(node, now_ms)
        except NotReady:
            raise
        except KafkaError as error:
            return error
        except Exception as error:
            channel.report_error(f"a call from node {self._sender} that node {self._to} handles", error)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # As the handler of Kafka's requests answers.
        finally:
            channel.acting_node = before

    def _give_up(self, now_ms: int) -> None:
        """The sender closes the connection; the target handles the request when it reads it, for nobody."""
        if not self._is_answered:
            self._is_answered = True
            self._done(KafkaError(ErrorCode.NETWORK_EXCEPTION, f"node {self._to} did not answer in time"), now_ms)


class InterBrokerChannel(Generic[N_co]):
    """The cluster's queue of calls and scheduled actions, in order of time and then of sending.

    nodes: the running brokers; a call to another one is answered with NETWORK_EXCEPTION.
    latency_ms: one-way latency, milliseconds of the cluster's clock. request_timeout_ms: how long a call waits for a
    paused node. plan_delivery: returns latency and loss of a call by its target and time; the simulator replaces it.
    loading_ms: how long a node takes to load a partition of a coordinator's topic, by node and time; by default the
    latency.
    report_error: is called for an exception that an action or a handler raises and that nobody expects; by default it
    is raised again.
    acting_node: the node that runs now, None for the controller and for tests; what is scheduled belongs to it. paused:
    the nodes that do not run, each with its actions that were due since.
    """

    def __init__(self, nodes: dict[int, N_co], *, latency_ms: int = 0, request_timeout_ms: int = 30_000) -> None:
        self.nodes = nodes
        self.latency_ms = latency_ms
        self.request_timeout_ms = request_timeout_ms
        self.plan_delivery: Callable[[int, int], Delivery] = self._delivery_without_loss
        self.loading_ms: Callable[[int, int], int] = lambda node_id, now_ms: self.latency_ms
        self.report_error: Callable[[str, Exception], None] = _raise_again
        self.acting_node: int | None = None
        self.paused: dict[int, list[Action]] = {}
        self._direct = Delivery(latency_ms, latency_ms)
        self._queue: list[tuple[int, int, int | None, Action]] = []
        self._sent_count = 0

    def _delivery_without_loss(self, _to: int, _now_ms: int) -> Delivery:
        if self._direct.out_ms != self.latency_ms:
            self._direct = Delivery(self.latency_ms, self.latency_ms)
        return self._direct

    @contextmanager
    def act_as(self, node_id: int | None) -> Iterator[None]:
        """Let what is scheduled in the block belong to a node."""
        before, self.acting_node = self.acting_node, node_id
        try:
            yield
        finally:
            self.acting_node = before

    def call(
        self,
        *,
        to: int,
        handle: Callable[[N_co, int], T | DelayedAnswer],
        done: Callable[[T | KafkaError, int], None],
        now_ms: int,
    ) -> None:
        """Run `handle(node, now_ms)` on node `to`, and `done(answer, now_ms)` here when the answer is back.

        A `KafkaError` that `handle` raises is passed to `done` as a value.
        """
        delivery = self.plan_delivery(to, now_ms)
        pending = _PendingCall(self, to, handle, done, delivery)
        self.schedule(delivery.out_ms, pending.deliver, now_ms=now_ms, owner=None)

    def schedule(self, delay_ms: int, action: Action, *, now_ms: int, owner: int | EllipsisType | None = ...) -> None:
        """Run `action(now_ms)` in `delay_ms`: a retry after its back-off, or the delivery of a message.

        owner: the node that it belongs to, None for none; by default the one that acts now.
        """
        self._sent_count += 1
        node_id = self.acting_node if owner is ... else owner
        heapq.heappush(self._queue, (now_ms + delay_ms, self._sent_count, node_id, action))

    def pause(self, node_id: int) -> None:
        """Let no action of a node run, and hold the calls to it."""
        self.paused[node_id] = []

    def hold(self, node_id: int, action: Action) -> None:
        """Run an action when a paused node runs again."""
        self.paused[node_id].append(action)

    def resume(self, node_id: int, *, now_ms: int) -> None:
        """Let a paused node run again: first what was due meanwhile, in its order."""
        for action in self.paused.pop(node_id):
            self.schedule(0, action, now_ms=now_ms, owner=node_id)

    def next_deadline_ms(self) -> int | None:
        """When the next action is due, or None."""
        return self._queue[0][0] if self._queue else None

    def expire(self, *, now_ms: int, after_each: Callable[[], None] = lambda: None) -> None:
        """Run the actions that are due. What they schedule waits for the next call, even with no latency.

        after_each: called after each action, so that requests woken by it are resumed before the next action runs. A
        fetch that waits until one of two share-partitions is loaded is therefore answered with the first one alone, as
        by a real broker.
        """
        queue, due_actions = self._queue, []
        while queue and queue[0][0] <= now_ms:
            due_actions.append(heapq.heappop(queue))
        before = self.acting_node
        try:
            for _, _, owner, action in due_actions:
                if owner in self.paused:
                    self.hold(owner, action)
                    continue
                self.acting_node = owner
                try:
                    action(now_ms)
                except Exception as error:
                    self.report_error(f"{describe_action(action)} of node {owner} at {now_ms} ms", error)
                self.acting_node = before
                after_each()
        finally:
            self.acting_node = before


def describe_action(action: Callable[..., object]) -> str:
    """What is scheduled, as the name of its function, for the report of an error in it."""
    function = action.func if isinstance(action, partial) else action
    return f"the deadline {getattr(function, '__qualname__', type(function).__name__)}"


def _raise_again(_what: str, error: Exception) -> None:
    raise error
