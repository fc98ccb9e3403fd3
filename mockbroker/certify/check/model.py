"""A check of a driver: what it needs, and a function that tries it against a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Unpack

from mockbroker.certify.driver.clients import DriverClients
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.handles import ConsumerHandle, Polled, PollingHandle, ShareConsumerHandle
from mockbroker.certify.driver.settings import ConsumerSettings
from mockbroker.cluster import Cluster
from mockbroker.cluster_methods.waiting import WaitTimeout

#: The topic of every check, with two partitions.
TOPIC = "orders"
GROUP = "shop"
#: How much longer than its time a call may take before it is a problem, milliseconds.
LATE_MS = 2_000


class Problem(Exception):
    """What is wrong with a driver, as a sentence."""


@contextmanager
def suppress_unsupported() -> Iterator[None]:
    """Ignore that the driver does not have what is called in the block."""
    try:
        yield
    except ClientError as error:
        if error.name != "LOCAL_UNSUPPORTED":
            raise


class CheckRun(NamedTuple):
    """What a check has: the cluster, and the clients of the driver. notes: shown beside "ok"."""

    cluster: Cluster
    clients: DriverClients
    notes: list[str]

    def expect(self, condition: object, problem: str) -> None:
        """Raises: Problem with this sentence if the condition is not true."""
        if not condition:
            raise Problem(problem)

    def expect_error(self, call: Callable[[], object], name: str) -> None:
        """Expect an error with this name. Raises: Problem."""
        try:
            call()
        except ClientError as error:
            self.expect(error.name == name, f"{error.method}: error {name} is expected; the answer has {error.info}")
        else:
            raise Problem(f"error {name} is expected; the answer has a result")

    def group_consumer(self, **settings: Unpack[ConsumerSettings]) -> ConsumerHandle:
        """A consumer with a group, which learns soon of partitions that it did not know when the group was formed."""
        fixed: ConsumerSettings = {"group_id": GROUP, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        given: ConsumerSettings = {**fixed, **settings}
        if "metadata_max_age_ms" in self.clients.hello.settings:
            refreshing: ConsumerSettings = {**given, "metadata_max_age_ms": 1000}
            with suppress_unsupported():  # A driver may have a setting for some kinds of clients only.
                return self.clients.consumer(**refreshing)
        return self.clients.consumer(**given)

    def subscribe(self, consumer: ConsumerHandle) -> None:
        """Subscribe to the topic, and give the client half a second to learn its partitions before it forms a group."""
        answered = len(self.cluster.requests("Metadata").answered())
        consumer.subscribe(TOPIC)
        with suppress(WaitTimeout):
            self.cluster.wait_for_request("Metadata", answered=True, count=answered + 1, timeout_s=0.5)

    def fill(self, *values: str, partition: int = 0) -> None:
        """Append records to the topic."""
        self.cluster.produce_all(TOPIC, [{"value": value, "partition": partition} for value in values])

    def poll(self, handle: PollingHandle, count: int) -> Polled:
        """Poll until this many records have come, 10 seconds at most. Raises: Problem."""
        polled = Polled([], [])
        deadline = time.monotonic() + 10
        while len(polled.records) < count:
            self.expect(
                time.monotonic() < deadline,
                f"poll: {len(polled.records)} of {count} records within 10 s, though they are in the log",
            )
            more = handle.poll(timeout_ms=500)
            polled.records.extend(more.records)
            polled.events.extend(more.events)
        return polled

    def join_share_group(self, handle: ShareConsumerHandle) -> None:
        """Poll until the partitions of the share group are active, 10 seconds at most. Raises: Problem."""
        deadline = time.monotonic() + 10
        while len([each for each in self.cluster.share_partitions(GROUP) if each.status.name == "ACTIVE"]) < 2:
            self.expect(time.monotonic() < deadline, "poll: after 10 s no ShareFetch has come for the partitions")
            handle.poll(timeout_ms=100)


class Check(NamedTuple):
    """A check. name: methods, as they stand in the output; needs: capabilities without which it is left out.

    cluster: arguments of `mockbroker.Cluster`.
    """

    name: str
    needs: Sequence[str]
    function: Callable[[CheckRun], None]
    cluster: Mapping[str, Any] = {}
