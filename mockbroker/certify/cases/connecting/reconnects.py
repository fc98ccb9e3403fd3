"""A broker that accepts no connections for a while: clients try again, with pauses, and go on."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise

from kwire.client import Client
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import acknowledged, send_error
from mockbroker.certify.driver.settings import ProducerSettings

_ONE = ClusterPlan(topics={"orders": 1})
_ALL, _PER_ADDRESS = "max.connections", "max.connections.per.ip"
_BROKERS = 4
#: How long connections are refused, seconds.
_FULL_S = 2.0
_PAUSES_S = 3.0
_GROWING_S = 4.0
#: By the default of reconnect.backoff.ms, 50, there are 40 if the pause does not grow. The bootstrap server may have
#: another pause, which makes 80.
_ATTEMPTS_MAX = 100
_RETRIES = 1_000
_PAUSE_MS = 500
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 100, 1_000
#: The pause is up to a fifth shorter by chance; a client may count it from another event.
_SHORTENED = 0.7


@contextmanager
def _full_node(run: CaseRun, limit: str) -> Iterator[None]:
    """Let the node accept no further connections. limit: the configuration, which is 1; one connection remains open."""
    with Client(run.wire.bootstrap_servers, client_id="certify") as admin:
        set_limit(admin, limit, 1)
        try:
            yield
        finally:
            set_limit(admin, limit, 1_000)


def set_limit(admin: Client, limit: str, count: int) -> None:
    """Let each node have so many connections. limit: the configuration, of all or of one address."""
    change = AlterConfigsResource(_BROKERS, "", [AlterableConfig(limit, 0, str(count))])
    admin.send(IncrementalAlterConfigsRequest([change]))


def _wait(run: CaseRun, duration_s: float) -> None:
    """Let a client go on for so long."""
    until_s = time.monotonic() + duration_s
    run.wire.wait_until(lambda: time.monotonic() >= until_s, timeout_s=duration_s + 1)


@case(
    "connecting.reconnects.address-limit",
    title="The node has as many connections of the client's address as it may have",
    level=Level.MUST,
    rule="A connection that the broker closes at once is tried again, after a pause, until the broker accepts it.",
    source=Source(
        "Kafka documentation",
        "max.connections.per.ip, reconnect.backoff.ms, delivery.timeout.ms",
        "kafka-clients CommonClientConfigs.RECONNECT_BACKOFF_MS_DOC",
    ),
    needs=("producer",),
    cluster=_ONE,
    decided_by=("Produce",),
)
@acknowledged
def address_limit(run: CaseRun) -> None:
    """After the first record max.connections.per.ip is 1, and the connection of the second Produce request is closed.

    New connections are closed at once for two seconds, and are then accepted. The producer has 1,000 retries if it
    has the setting, since clients differ in their defaults.
    """
    count = _send_at_limit(run, _PER_ADDRESS)

    run.note(f"{count} connections in {_FULL_S:g} s at the limit")
    run.should(
        count <= _ATTEMPTS_MAX,
        f"at most {_ATTEMPTS_MAX} connections in {_FULL_S:g} s",
        seen=f"{count}",
        exchanges=run.wire.requests("Produce"),
    )


@case(
    "connecting.reconnects.node-limit",
    title="The node has as many connections as it may have",
    level=Level.MUST,
    rule="At its limit a broker accepts a connection later: the client waits for its first answer, or tries again.",
    source=Source("KIP-402", "Proposed Changes", "kafka-clients CommonClientConfigs.REQUEST_TIMEOUT_MS_DOC"),
    needs=("producer",),
    cluster=_ONE,
    decided_by=("Produce",),
)
@acknowledged
def node_limit(run: CaseRun) -> None:
    """After the first record max.connections is 1, and the connection of the second Produce request is closed.

    New connections are not accepted for two seconds: the system completes them, and nothing is answered. Then they are
    accepted. The producer has 1,000 retries if it has the setting.
    """
    _send_at_limit(run, _ALL)


def _send_at_limit(run: CaseRun, limit: str) -> int:
    """Let a producer send a record while the node is at its limit for two seconds. Returns: how often it has connected.

    Raises: ExpectationFailed if the record is not delivered; NotExercised for a client that did not connect.
    """
    retries: ProducerSettings = {"retries": _RETRIES} if run.has_setting("retries") else {}
    client = run.acked_producer(**retries)
    first = send_error(client, "orders", "first")
    with _full_node(run, limit):
        before = run.cluster.run(lambda server: server.core.connection_count)
        run.cluster.faults.add("Produce", times=1, drop="close")
        call = run.in_background(lambda: send_error(client, "orders", "second", timeout_ms=10_000))
        _wait(run, _FULL_S)
        count = run.cluster.run(lambda server: server.core.connection_count) - before
    second = call.result()
    produced = run.wire.requests("Produce")
    run.expect([first, second] == [None, None], "both records are delivered", seen=[first, second], exchanges=produced)
    if not count:
        run.not_exercised("the client has made no new connection while the node was at its limit")
    return count


@case(
    "connecting.reconnects.pause",
    title="The pause before a node is connected to again",
    level=Level.SHOULD,
    rule="A client waits for reconnect.backoff.ms before it connects again to a node whose connection has failed.",
    source=Source(
        "Kafka documentation", "reconnect.backoff.ms", "kafka-clients CommonClientConfigs.RECONNECT_BACKOFF_MS_DOC"
    ),
    needs=("producer",),
    settings_needed=("reconnect_backoff_ms",),
    cluster=_ONE,
    decided_by=("Produce",),
)
@acknowledged
def pause(run: CaseRun) -> None:
    """After the first record the node is stopped for three seconds; connections to its address are closed at once.

    reconnect.backoff.ms is 500, and so is its maximum. The client may have two pauses: that of the node, and that of
    the bootstrap server, which is the same node.
    """
    settings: ProducerSettings = {"reconnect_backoff_ms": _PAUSE_MS}
    if run.has_setting("reconnect_backoff_max_ms"):
        settings["reconnect_backoff_max_ms"] = _PAUSE_MS
    times = _attempt_times(run, settings, _PAUSES_S)

    limit = 2 * (1 + int(_PAUSES_S * 1_000 / (_PAUSE_MS * _SHORTENED)))
    run.expect(len(times) <= limit, f"at most {limit} connections in {_PAUSES_S:g} s", seen=describe_times(times))


@case(
    "connecting.reconnects.growing-pause",
    title="The pause grows while a node cannot be connected to",
    level=Level.SHOULD,
    rule="With each failure the pause before the next connection to a node grows, up to reconnect.backoff.max.ms.",
    source=Source(
        "KIP-144", "Public Interfaces", "kafka-clients ClusterConnectionStates, RECONNECT_BACKOFF_MAX_MS_DOC"
    ),
    needs=("producer",),
    settings_needed=("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
    cluster=_ONE,
    decided_by=("Produce",),
)
@acknowledged
def growing_pause(run: CaseRun) -> None:
    """After the first record the node is stopped for four seconds; connections to its address are closed at once.

    reconnect.backoff.ms is 100, and its maximum is 1,000.
    """
    times = _attempt_times(
        run, {"reconnect_backoff_ms": _FIRST_PAUSE_MS, "reconnect_backoff_max_ms": _LONGEST_PAUSE_MS}, _GROWING_S
    )

    longest_ms = max((after - before) * 1_000 for before, after in pairwise(times))
    run.expect(
        longest_ms >= _LONGEST_PAUSE_MS * _SHORTENED,
        f"a pause that has grown to about {_LONGEST_PAUSE_MS} ms",
        seen=describe_times(times),
    )


def _attempt_times(run: CaseRun, settings: ProducerSettings, duration_s: float) -> list[float]:
    """The times at which a producer connects to its node, which is stopped for so long, with a record to deliver.

    Raises: ExpectationFailed if the record is not delivered when the node runs again; NotExercised for fewer than three
    connections.
    """
    if run.has_setting("rebootstrap"):
        settings["rebootstrap"] = False  # The bootstrap server would have a pause of its own.
    client = run.acked_producer(**settings)
    first = send_error(client, "orders", "first")
    host, port = run.cluster.bootstrap_servers.split(":")
    run.cluster.stop_node(0)
    with closing_server(host, int(port)) as times:
        call = run.in_background(lambda: send_error(client, "orders", "second", timeout_ms=12_000))
        _wait(run, duration_s)
        seen = list(times)
    run.cluster.start_node(0)
    errors = [first, call.result()]
    run.expect(
        errors == [None, None], "both records are delivered", seen=errors, exchanges=run.wire.requests("Produce")
    )
    if len(seen) < 3:
        run.not_exercised(f"the client has connected {len(seen)} times in {duration_s:g} s")
    run.note(f"connections: {describe_times(seen)}")
    return seen


def describe_times(times: list[float]) -> str:
    """How many connections there were, and the pauses between the first ones."""
    pauses = [f"{(after - before) * 1_000:.0f}" for before, after in pairwise(times)]
    return f"{len(times)} connections, with pauses of {', '.join(pauses[:12])} ms"


@contextmanager
def closing_server(host: str, port: int) -> Iterator[list[float]]:
    """Accept connections at an address, and close them at once. Returns: their times."""
    times: list[float] = []
    with socket.create_server((host, port)) as listener:
        thread = threading.Thread(target=_close_all, args=(listener, times), name="certify-closing", daemon=True)
        thread.start()
        try:
            yield times
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(1)


def _close_all(listener: socket.socket, times: list[float]) -> None:
    with suppress(OSError):  # The listener is closed.
        while True:
            client, _ = listener.accept()
            times.append(time.monotonic())
            client.close()
