"""Bootstrap addresses, the first connections, and bootstrapping again (KIP-899, KIP-1102)."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import send_error
from mockbroker.certify.driver.settings import ProducerSettings

_ALTERNATIVES = Source(
    "Kafka documentation", "bootstrap.servers", "kafka-clients CommonClientConfigs.BOOTSTRAP_SERVERS_DOC"
)
#: The first version of Metadata that has an error of its own (KIP-1102).
_REBOOTSTRAP_REQUIRED = 13
#: How many producers are opened until one has tried an address that cannot be used. A client that chooses one of two by
#: chance tries it at least once, but for one of 4096 runs.
_TRIES = 12
#: A host name that does not exist (RFC 6761), and how many producers have it at most.
_UNKNOWN_HOST = "broker.invalid"
_UNKNOWN_HOST_TRIES = 4
_ONE = ClusterPlan(topics={"orders": 1})
#: The option of a socket that is reset when it is closed.
_RESET = struct.pack("ii", 1, 0)


@contextmanager
def _closed_port() -> Iterator[int]:
    """A port of this machine on which nobody listens, and that nobody else gets meanwhile."""
    with _bind(0) as bound:
        yield bound.getsockname()[1]


@contextmanager
def _dead_address() -> Iterator[tuple[str, Event]]:
    """An address where the first connection is reset, and later ones are refused; the event: there was a first one.

    A refused connection alone leaves nothing to be seen on this side.
    """
    with _closed_port() as port, _bind(port) as listener:
        listener.listen()
        is_tried = Event()

        def reset_first() -> None:
            with suppress(OSError):  # The listener is closed.
                client = listener.accept()[0]
                listener.close()
                is_tried.set()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                client.close()

        thread = Thread(target=reset_first, name="certify-dead-address", daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{port}", is_tried
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(1)


def _bind(port: int) -> socket.socket:
    """A socket at a port of this machine, which another socket of this function may have, too."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound


def _use_dead_address(run: CaseRun, addresses: list[str], is_tried: Event) -> None:
    """Send records with producers that have one address that cannot be used, until one has tried it; then with another.

    Raises: NotExercised if none has.
    """
    errors = []
    for number in range(_TRIES):
        errors.append(send_error(run.acked_producer(f"producer-{number}", bootstrap_servers=addresses), "orders", "a"))
        if errors[-1] or is_tried.is_set():
            break
    if not (errors[-1] or is_tried.is_set()):
        run.not_exercised(f"none of {_TRIES} producers has tried the address that cannot be used")
    if not errors[-1]:
        errors.append(send_error(run.acked_producer("last", bootstrap_servers=addresses), "orders", "b"))
    run.expect(not errors[-1], "the record is delivered by the other address", seen=errors[-1])


@case(
    "connecting.bootstrap.dead-address",
    title="No broker at the first bootstrap address",
    level=Level.MUST,
    rule="A client uses the bootstrap addresses as alternatives: one that is reachable is enough.",
    source=_ALTERNATIVES,
    needs=("producer",),
    cluster=_ONE,
    quick=True,
    decided_by=("Metadata", "Produce"),
)
def dead_address(run: CaseRun) -> None:
    """At the first of the two bootstrap addresses the first connection is reset, and later ones are refused.

    A client may try the other one first: producers are opened, twelve at most, until one has tried it, and one more.
    """
    with _dead_address() as (dead, is_tried):
        _use_dead_address(run, [dead, run.cluster.bootstrap_servers], is_tried)


@case(
    "connecting.bootstrap.dead-last-address",
    title="No broker at the last bootstrap address",
    level=Level.MUST,
    rule="A client uses the bootstrap addresses as alternatives, whichever it tries first.",
    source=_ALTERNATIVES,
    needs=("producer",),
    cluster=_ONE,
    decided_by=("Metadata", "Produce"),
)
def dead_last_address(run: CaseRun) -> None:
    """At the last of the two bootstrap addresses the first connection is reset, and later ones are refused.

    A client may try the other one first: producers are opened, twelve at most, until one has tried it, and one more.
    """
    with _dead_address() as (dead, is_tried):
        _use_dead_address(run, [run.cluster.bootstrap_servers, dead], is_tried)


@case(
    "connecting.bootstrap.unknown-host",
    title="A bootstrap address whose host name is not known",
    level=Level.MUST,
    rule="A host name that cannot be resolved is skipped if another address can be used.",
    source=Source("KIP-302", "client.dns.lookup", "kafka-clients CommonClientConfigs.BOOTSTRAP_SERVERS_DOC"),
    needs=("producer",),
    cluster=_ONE,
    decided_by=("Metadata", "Produce"),
)
def unknown_host(run: CaseRun) -> None:
    """The first of the two bootstrap addresses has a host name that does not exist.

    A look-up cannot be seen, unless the client logs it, and a client may try the other address first: producers are
    opened, four at most, until the log of the driver has the name. A client that logs nothing and chooses by chance
    passes one of 16 runs without a look-up.
    """
    addresses = [f"{_UNKNOWN_HOST}:9092", run.cluster.bootstrap_servers]

    for number in range(_UNKNOWN_HOST_TRIES):
        error = send_error(run.acked_producer(f"producer-{number}", bootstrap_servers=addresses), "orders", "first")
        run.expect(error is None, "the record is delivered by the other address", seen=error)
        if _UNKNOWN_HOST in run.process.log.text():
            return
    run.note(f"the log of the driver does not show whether the client looked up {_UNKNOWN_HOST}")


@case(
    "connecting.bootstrap.silent-address",
    title="A bootstrap address that accepts connections and answers nothing",
    level=Level.SHOULD,
    rule="A bootstrap server that does not answer within the request timeout does not keep the client from the others.",
    source=_ALTERNATIVES,
    needs=("producer",),
    settings_needed=("request_timeout_ms",),
    cluster=_ONE,
    decided_by=("Metadata", "Produce"),
)
def silent_address(run: CaseRun) -> None:
    """At the first of the two bootstrap addresses connections are accepted, and nothing is answered.

    A client may try the other one first: producers are opened, twelve at most, until one has connected to it.
    """
    with socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = [f"127.0.0.1:{silent.getsockname()[1]}", run.cluster.bootstrap_servers]
        for number in range(_TRIES):
            producer = run.acked_producer(f"producer-{number}", bootstrap_servers=addresses, request_timeout_ms=1000)
            error = send_error(producer, "orders", "first")
            is_tried = bool(select.select([silent], [], [], 0)[0])
            if error or is_tried:
                break

    if not (error or is_tried):
        run.not_exercised(f"none of {_TRIES} producers has tried the address that does not answer")
    run.expect(error is None, "the record is delivered by the other address", seen=error)


@case(
    "connecting.bootstrap.other-nodes",
    title="The bootstrap server is not the leader",
    level=Level.MUST,
    rule="A client connects to the nodes of the metadata: the bootstrap list need not have all of them.",
    source=Source("Kafka protocol guide", "Partitioning and bootstrapping"),
    needs=("producer",),
    cluster=ClusterPlan(nodes=3, topics={"orders": 3}),
    on_kafka=True,
    decided_by=("Metadata", "Produce"),
)
def other_nodes(run: CaseRun) -> None:
    """Only node 0 is in the bootstrap list; each of the three nodes leads a partition."""
    address = run.wire.bootstrap_servers.split(",")[0]
    producer = run.acked_producer(bootstrap_servers=[address])

    deliveries = [producer.send("orders", "first", partition=partition)[0] for partition in range(3)]

    nodes = {each.node_id for each in run.wire.requests("Produce")}
    run.expect(
        not any(each.error for each in deliveries),
        "all records are delivered",
        seen=[each.error for each in deliveries],
    )
    run.expect(len(nodes) == 3, "Produce to three nodes", seen=nodes, exchanges=run.wire.requests("Produce"))


@case(
    "connecting.bootstrap.known-nodes-gone",
    title="None of the nodes of the metadata can be reached",
    level=Level.MUST,
    rule="With metadata.recovery.strategy=rebootstrap a client uses the bootstrap servers when no known node is there.",
    source=Source("KIP-899", "Proposed Changes", "kafka-clients METADATA_RECOVERY_STRATEGY_CONFIG"),
    needs=("producer",),
    settings_needed=("rebootstrap",),
    cluster=_ONE,
    decided_by=("Metadata", "Produce"),
)
def known_nodes_gone(run: CaseRun) -> None:
    """The first Metadata answer has a port on which nobody listens; later ones have the right one.

    Metadata is due while the node is in its reconnection backoff: where both intervals grow alike, the Java client may
    find the node ready for one more connection each time, and never use the bootstrap servers.
    """
    settings: ProducerSettings = {"rebootstrap": True, "retry_backoff_ms": 50, "retry_backoff_max_ms": 50}
    with _closed_port() as port:
        run.cluster.faults.add("Metadata", times=1, set_fields={"brokers.port": port})

        error = send_error(run.acked_producer(**settings), "orders", "first", timeout_ms=9000)

    asked = run.wire.requests("Metadata")
    run.expect(error is None, "the record is delivered", seen=error, exchanges=asked)


@case(
    "connecting.bootstrap.rebootstrap-required",
    title="The broker answers REBOOTSTRAP_REQUIRED",
    level=Level.SHOULD,
    rule="On REBOOTSTRAP_REQUIRED in Metadata a client forgets its nodes, and begins with the bootstrap servers.",
    source=Source("KIP-1102", "Proposed Changes", "kafka-clients METADATA_RECOVERY_STRATEGY_CONFIG"),
    needs=("producer",),
    settings_needed=("rebootstrap",),
    cluster=_ONE,
    decided_by=("Metadata", "Produce"),
)
def rebootstrap_required(run: CaseRun) -> None:
    """The second Metadata request is answered with REBOOTSTRAP_REQUIRED, if it has version 13."""
    condition = {"first": 2, "times": 1, "optional": True}
    run.cluster.faults.add("Metadata", set_fields={"error_code": 129}, **condition)

    error = send_error(run.acked_producer(rebootstrap=True), "orders", "first")
    again = send_error(run.acked_producer("again", rebootstrap=True), "orders", "second")

    asked = run.wire.requests("Metadata")
    refused = [each for each in asked if each.faults]
    if not refused:
        run.not_exercised("the client sent no second Metadata request")
    if refused[0].api_version < _REBOOTSTRAP_REQUIRED:
        run.not_exercised(f"the client sends Metadata {refused[0].api_version}, which has no such error")
    run.expect([error, again] == [None, None], "the records are delivered", seen=[error, again], exchanges=asked)
