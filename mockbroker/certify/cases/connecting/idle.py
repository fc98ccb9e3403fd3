"""Connections on which nothing is sent: the broker closes them, and so do clients."""

from __future__ import annotations

from contextlib import suppress

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import acknowledged, send_error
from mockbroker.certify.share_group import join
from mockbroker.cluster_methods.waiting import WaitTimeout

_IDLE_MS = 3_000
#: The idle time, after the time that a Fetch request waits at the broker; all sessions of groups are longer.
_STEP_MS = _IDLE_MS + 1_000
_CLIENT_IDLE_MS = 500
#: A client looks after its idle connections once in a while: after the longest wait for its sockets, for example.
_CLIENT_LIMIT_S = 8.0
_CLOSES = ClusterPlan(topics={"orders": 1}, properties={"connections.max.idle.ms": _IDLE_MS})
_ONE = ClusterPlan(topics={"orders": 1})
_RULE = "A broker closes connections that are idle; the client connects again when it needs one, and shows no error."
_SOURCE = Source(
    "Kafka documentation", "connections.max.idle.ms of brokers, reconnect.backoff.ms", "kafka-clients NetworkClient"
)


def _let_idle(run: CaseRun) -> None:
    """Move the clock by the idle time, and wait until the broker has closed the connections that the client had."""
    used = {exchange.connection_id for exchange in run.wire.requests()}
    run.cluster.clock.advance(_STEP_MS)
    run.wire.wait_until(lambda: _count_open(run, used) == 0)


def _closes(run: CaseRun, connections: set[int]) -> bool:
    """Whether the client closes these connections in time."""
    with suppress(WaitTimeout):
        run.wire.wait_until(lambda: _count_open(run, connections) == 0, timeout_s=_CLIENT_LIMIT_S)
        return True
    return False


def _count_open(run: CaseRun, connections: set[int]) -> int:
    return run.cluster.run(lambda server: sum(map(server.core.is_connected, connections)))


@case(
    "connecting.idle.producer",
    title="The broker closes the idle connections of a producer",
    level=Level.MUST,
    rule=_RULE,
    source=_SOURCE,
    needs=("producer",),
    cluster=_CLOSES,
    decided_by=("Produce",),
)
@acknowledged
def producer(run: CaseRun) -> None:
    """Between two records the clock moves by more than connections.max.idle.ms: all connections are closed."""
    client = run.acked_producer()
    first = send_error(client, "orders", "first")
    _let_idle(run)

    second = send_error(client, "orders", "second")

    produced = run.wire.requests("Produce")
    run.expect([first, second] == [None, None], "both records are delivered", seen=[first, second], exchanges=produced)


@case(
    "connecting.idle.consumer",
    title="The broker closes the idle connections of a consumer in a group",
    level=Level.MUST,
    rule=_RULE,
    source=_SOURCE,
    needs=("consumer.classic",),
    cluster=_CLOSES,
    decided_by=("Fetch",),
)
def consumer(run: CaseRun) -> None:
    """After the first record the clock moves by more than connections.max.idle.ms: all connections are closed."""
    client = run.consumer(group_id="shop", auto_offset_reset="earliest")
    run.subscribe(client, "orders")
    run.produce("orders", "first")
    polled = client.poll_until(records=1)
    _let_idle(run)
    run.produce("orders", "second")

    polled.records.extend(client.poll_until(records=1).records)

    fetched = run.wire.requests("Fetch")
    run.expect(polled.values == ["first", "second"], "both records", seen=polled.values, exchanges=fetched)


@case(
    "connecting.idle.share-consumer",
    title="The broker closes the idle connections of a share consumer",
    level=Level.MUST,
    rule="The share session ends with its connection: the client begins another one, and shows no error.",
    source=Source("KIP-932", "Share sessions", "kafka-clients NetworkClient, ShareSessionHandler"),
    needs=("share",),
    cluster=_CLOSES,
    decided_by=("ShareFetch",),
)
def share_consumer(run: CaseRun) -> None:
    """After the first record the clock moves by more than connections.max.idle.ms: all connections are closed."""
    client = join(run, "orders")
    run.start_share_group(client, "shop", "orders")
    run.produce("orders", "first")
    polled = client.poll_until(records=1)
    client.poll(timeout_ms=200)
    _let_idle(run)
    run.produce("orders", "second")

    polled.records.extend(client.poll_until(lambda more: "second" in more.values).records)

    fetched = run.wire.requests("ShareFetch")
    run.expect("first" in polled.values, "both records", seen=polled.values, exchanges=fetched)


@case(
    "connecting.idle.closed-by-client",
    title="A client with connections.max.idle.ms",
    level=Level.SHOULD,
    rule="A client closes connections that were idle for its connections.max.idle.ms, and connects again when needed.",
    source=Source(
        "Kafka documentation",
        "connections.max.idle.ms of clients",
        "kafka-clients CommonClientConfigs.CONNECTIONS_MAX_IDLE_MS_DOC",
    ),
    needs=("producer",),
    settings_needed=("connections_max_idle_ms",),
    cluster=_ONE,
    timeout_s=25.0,
    decided_by=("Produce",),
)
@acknowledged
def closed_by_client(run: CaseRun) -> None:
    """No fault: after the first record the case waits until the client has closed the connection of Produce.

    The client's connections.max.idle.ms is half a second. Its request timeout is a second if it has the setting: the
    Java client looks after idle connections when a wait for its sockets ends, which lasts no longer than that.
    """
    timeout = {"request_timeout_ms": 1_000} if run.has_setting("request_timeout_ms") else {}
    client = run.acked_producer(connections_max_idle_ms=_CLIENT_IDLE_MS, **timeout)  # type: ignore[arg-type]
    first = send_error(client, "orders", "first")
    used = {exchange.connection_id for exchange in run.wire.requests("Produce")}
    is_closed = _closes(run, used)

    second = send_error(client, "orders", "second")

    produced = run.wire.requests("Produce")
    run.expect([first, second] == [None, None], "both records are delivered", seen=[first, second], exchanges=produced)
    run.expect(
        is_closed,
        f"the connection is closed after {_CLIENT_IDLE_MS} ms without requests",
        seen=f"it is open after {_CLIENT_LIMIT_S:g} s",
        exchanges=produced[:1],
    )
