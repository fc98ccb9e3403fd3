"""`CaseRun`: what a case function works with: the cluster, the clients, and expectations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Thread, get_ident
from typing import Any, NamedTuple, NoReturn, TypeVar, Unpack

from mockbroker.certify.case import Case
from mockbroker.certify.case_cluster import has_active_partitions
from mockbroker.certify.case_position import find_position
from mockbroker.certify.driver.clients import DriverClients, RecordedCall
from mockbroker.certify.driver.failure import ClientError, DriverFailure
from mockbroker.certify.driver.handles import ConsumerHandle, Polled, PollingHandle, ShareConsumerHandle
from mockbroker.certify.driver.messages import ErrorReported, HelloResult
from mockbroker.certify.driver.process import DriverProcess
from mockbroker.certify.expectations import (
    Exchanges,
    ExpectationFailed,
    NotExercised,
    Unsupported,
    describe_evidence,
    exchange_numbers,
    last_of,
)
from mockbroker.cluster import Cluster
from mockbroker.cluster_methods.methods import SharedMethods
from mockbroker.cluster_methods.waiting import WaitTimeout
from mockbroker.journal import Exchange
from mockbroker.journal.request_filters import RequestFilters
from mockbroker.journal.request_history import RequestHistory

T = TypeVar("T")

#: The limit of the start of a share group, seconds.
_START_S = 10.0
#: How long a client may take to learn the partitions of a topic before its first poll, seconds.
_METADATA_S = 0.5


class Lapse(NamedTuple):
    """A `should` that is not met."""

    expected: str
    seen: str
    numbers: tuple[int, ...]


def _is_first_answer(exchange: Exchange[Any, Any]) -> bool:
    return exchange.response is not None and exchange.response.error_code == 0


class CaughtError:
    """The error that `CaseRun.expect_error` has caught."""

    error: ClientError


class CaseRun(DriverClients):
    """One case with one client. It opens clients as `DriverClients` does, with `client_id` as their names.

    cluster: a `mockbroker.Cluster` with faults, clock and nodes. wire: the questions to the history and the waits for
    requests (`requests`, `wait_for_request`, `wait_until`, `assert_sent`, ...), which a real Kafka behind the proxy has
    too: cases with `on_kafka=True` use only these and `produce`.
    """

    def __init__(
        self,
        case: Case,
        cluster: SharedMethods,
        process: DriverProcess,
        hello: HelloResult,
        *,
        defaults: Mapping[str, Any],
        produce: Callable[[str, tuple[str | None, ...], int], None],
        start_driver: Callable[[], tuple[DriverProcess, HelloResult]],
        time_factor: float = 1.0,
    ) -> None:
        self.calls: list[RecordedCall] = []
        settings = {"bootstrap_servers": cluster.bootstrap_servers.split(","), **defaults}
        super().__init__(process, hello, settings, self.calls, time_factor=time_factor)
        self.case = case
        self.wire = cluster
        self.notes: list[str] = []
        self.lapses: list[Lapse] = []
        self.started_ns = time.time_ns()
        self.is_timed_out = False
        self.background_errors: list[BaseException] = []
        self.position = ""
        self._thread_id = get_ident()
        self._produce = produce
        self._start_driver = start_driver
        self._others: list[DriverClients] = []
        self._background: list[Thread] = []

    @property
    def cluster(self) -> Cluster:
        """The cluster. Raises: TypeError on a real Kafka, which has no faults and no clock."""
        if not isinstance(self.wire, Cluster):
            raise TypeError(f"case {self.case.id} uses run.cluster, and says on_kafka=True")
        return self.wire

    def produce(self, topic: str, *values: str | None, partition: int = 0) -> None:
        """Append records to a topic without a client under test."""
        self._produce(topic, values, partition)

    def subscribe(self, consumer: ConsumerHandle, *topics: str) -> None:
        """Subscribe, and give the client half a second to learn the partitions before it forms a group by its polls.

        For classic groups in cases that are not about that: some clients assign nothing if they form the group first.
        """
        answered = len(self.wire.requests("Metadata").answered())
        consumer.subscribe(*topics)
        with suppress(WaitTimeout):
            self.wire.wait_for_request("Metadata", answered=True, count=answered + 1, timeout_s=_METADATA_S)

    def start_share_group(self, consumer: ShareConsumerHandle, group_id: str, *topics: str) -> None:
        """Poll until the member's partitions are active at their leaders: records from now on are delivered to it.

        A share group starts at the end of the log. Raises: ExpectationFailed if that does not come within 10 seconds.
        """
        deadline = time.monotonic() + _START_S
        while not self._is_active(group_id, topics):
            if time.monotonic() > deadline:
                raise ExpectationFailed(f"{consumer.name} joins {group_id} and fetches from {', '.join(topics)}", "no")
            consumer.poll(timeout_ms=100)

    def _is_active(self, group_id: str, topics: Sequence[str]) -> bool:
        """Whether all partitions of the topics are active; on a real Kafka, whether a fetch of each was answered."""
        if isinstance(self.wire, Cluster):
            return has_active_partitions(self.wire, group_id, topics)
        return all(
            any(
                _is_first_answer(exchange) for exchange in self.wire.requests("ShareFetch", group=group_id, topic=topic)
            )
            for topic in topics
        )

    def find_request(
        self,
        api: str,
        *,
        count: int = 1,
        answered: bool = False,
        timeout_s: float = 2.0,
        **filters: Unpack[RequestFilters],
    ) -> RequestHistory[Any, Any] | None:
        """Wait for requests that the client may leave out. Returns: those that match, None if none came in this time.

        For what a client must send, `wire.wait_for_request` fails the case.
        """
        limit_s = timeout_s * self.time_factor
        try:
            return self.wire.wait_for_request(api, count=count, answered=answered, timeout_s=limit_s, **filters)
        except WaitTimeout:
            return None

    def poll_for(
        self,
        consumer: PollingHandle,
        condition: Callable[[], object],
        expected: str,
        *,
        timeout_s: float = 10.0,
        into: Polled | None = None,
        may_fail: bool = False,
    ) -> Polled:
        """Poll until a condition of the cluster, of other clients or of what was polled is true.

        into: to which records and events are added, in place of a new value. may_fail: errors of polls are notes, since
        a client may report what it recovers from. Returns: what the polls returned.
        Raises: ExpectationFailed with `expected` if it is not true in time; ClientError, that of a poll.
        """
        polled = Polled([], []) if into is None else into
        limit_s = timeout_s * self.time_factor
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise ExpectationFailed(expected, f"not within {limit_s:g} s")
            try:
                more = consumer.poll(timeout_ms=50)
            except ClientError as error:
                if not may_fail:
                    raise
                self.note(f"a poll reports {error.name}")
                continue
            polled.records.extend(more.records)
            polled.events.extend(more.events)
        return polled

    def expect_poll_error(self, consumer: PollingHandle, *names: str, timeout_s: float = 5.0) -> str:
        """Expect that polls report one of these errors, as the error of a poll or as an event. Returns: its name.

        Raises: ExpectationFailed if they report another one, or none in time.
        """
        expected = f"the client reports {' or '.join(names)}"
        limit_s = timeout_s * self.time_factor
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            try:
                reported = [event.error for event in consumer.poll(timeout_ms=100).events_of(ErrorReported)]
            except ClientError as error:
                reported = [error.info]
            for info in reported:
                if info.name == "LOCAL_UNSUPPORTED":
                    raise Unsupported(info.message)
                if info.name not in names:
                    raise ExpectationFailed(expected, f"{info.name}: {info.message}")
                self.note(f"the client reports {info.name}")
                return info.name
        raise ExpectationFailed(expected, f"no error within {limit_s:g} s")

    def has(self, capability: str) -> bool:
        """Whether the driver has a capability that the case can do without."""
        return capability in self.hello.capabilities

    def last_exchanges(self, *apis: str) -> list[Exchange[Any, Any]]:
        """The last exchanges of these APIs; of any API if there is none of these."""
        return last_of(self.wire.requests(), apis)

    def has_setting(self, setting: str) -> bool:
        """Whether the driver supports a setting that the case can do without."""
        return setting in self.hello.settings

    def second_driver(self) -> DriverClients:
        """A further process of the driver, for another member or a crash (`kill`); it is ended with the case."""
        process, hello = self._start_driver()
        number = len(self._others) + 1
        factor = self.time_factor
        other = DriverClients(process, hello, self._defaults, self.calls, number=number, time_factor=factor)
        self._others.append(other)
        return other

    def in_background(self, call: Callable[[], T]) -> Future[T]:
        """Run a call of a handle in a thread, while the case changes the cluster. Other calls of the driver wait."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(call())
            except BaseException as error:
                self.background_errors.append(error)
                future.set_exception(error)

        thread = Thread(target=run, name="certify-call", daemon=True)
        self._background.append(thread)
        thread.start()
        return future

    def expect(self, condition: object, expected: str, *, seen: object = "", exchanges: Exchanges = None) -> None:
        """Assert what the source demands. expected: for the report; exchanges: that decide.

        seen: a text, or a value that is shown as one; without it the exchanges are shown.

        Raises: ExpectationFailed.
        """
        if not condition:
            raise ExpectationFailed(expected, describe_evidence(seen, exchanges), exchange_numbers(exchanges))

    def should(self, condition: object, expected: str, *, seen: object = "", exchanges: Exchanges = None) -> None:
        """Note a recommendation that the client did not follow: the verdict is NON-STRICT, and the case goes on."""
        if not condition:
            self.lapses.append(Lapse(expected, describe_evidence(seen, exchanges), exchange_numbers(exchanges)))

    @contextmanager
    def expect_error(self, *names: str) -> Iterator[CaughtError]:
        """Expect that the client reports one of these errors, any without names, in the block.

        Raises: ExpectationFailed if it reports another one, or none.
        """
        caught = CaughtError()
        expected = f"the client reports {' or '.join(names) or 'an error'}"
        try:
            yield caught
        except ClientError as error:
            if error.name == "LOCAL_UNSUPPORTED" and error.name not in names:
                raise
            if names and error.name not in names:
                raise ExpectationFailed(expected, str(error)) from error
            caught.error = error
        else:
            raise ExpectationFailed(expected, "no error")

    def not_exercised(self, why: str) -> NoReturn:
        """End the case without judging the client: it sent nothing that the rule is about. why: what it sent instead.

        Raises: NotExercised.
        """
        raise NotExercised(why)

    def note(self, text: str) -> None:
        """Show a sentence on the page of the result."""
        self.notes.append(text)

    def stop(self) -> None:
        """End the case at its time limit: its driver processes are killed, so that calls end."""
        self.position = self._describe_position()
        self.is_timed_out = True
        for clients in (self, *self._others):
            clients.process.kill("the driver was ended at the time limit of the case")

    def _describe_position(self) -> str:
        """What the case is waiting for: calls of drivers without an answer, and its own line."""
        now = time.monotonic()
        texts = [
            f"{title} has no answer since {now - began:.1f} s"
            for clients in (self, *self._others)
            for title, began in list(clients.open_calls.items())
        ]
        line = find_position(self._thread_id, self.case.function)
        return "; ".join([*texts, *([f"the case was at: {line}"] if line else [])])

    def end(self) -> bool:
        """Close the clients and end further processes. Returns: whether the driver can be used again."""
        for other in self._others:
            try:
                other.close_clients()
                problem = other.process.close()
                if problem is not None:
                    self.note(f"second driver: {problem}")
            except DriverFailure:
                other.process.kill()
        for thread in self._background:
            thread.join(0.2)
        if any(thread.is_alive() for thread in self._background):
            return False
        return self.close_clients()
