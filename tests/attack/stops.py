"""Clients that do not let a broker stop: random mixes of them, then a stop, which has to be over in its time.

Each round has a cluster of its own: with or without TLS, a control over HTTP, a data directory, a proxy before it, and
a clock that moves. Only a stop that takes longer than a limit of hanging is a violation, as machines differ.
"""

from __future__ import annotations

import contextlib
import random
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

from mockbroker import Cluster, Proxy
from mockbroker.engine.internal_errors import collect_internal_errors
from tests.support.stubborn_clients import (
    LARGE_TOPIC,
    OF_CONTROL,
    PLAIN,
    WITH_TLS,
    OpenClient,
    fill_large_topic,
)

_GRACES_MS = (0, 50, 300)
#: The limit of hanging beyond the grace, seconds. The promise is one second, on a machine that is not busy.
_LIMIT_S = 10.0
_CLIENTS_MAX = 12
_CENTURY_MS = 100 * 365 * 24 * 3_600_000


def attack(rng: random.Random, *, seconds: float) -> Iterator[str]:
    """Stop clusters with clients that do not end their connections. Yields: the stops that took too long."""
    until_s = time.monotonic() + seconds
    is_first = True
    while is_first or time.monotonic() < until_s:
        is_first = False
        with collect_internal_errors() as errors:
            yield from _play_round(rng)
        yield from errors


def _play_round(rng: random.Random) -> Iterator[str]:
    grace_ms, has_tls, has_control = rng.choice(_GRACES_MS), rng.random() < 0.5, rng.random() < 0.7
    choices: list[OpenClient] = [*(WITH_TLS if has_tls else PLAIN), *(OF_CONTROL if has_control else ())]
    chosen = [rng.choice(choices) for _ in range(rng.randint(1, _CLIENTS_MAX))]
    names = ", ".join(sorted({client.__name__ for client in chosen}))
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory()) if rng.random() < 0.3 else None
        cluster = Cluster(
            nodes=rng.randint(1, 3),
            topics=[LARGE_TOPIC],
            tls="auto" if has_tls else None,
            control=0 if has_control else None,
            data_dir=folder,
            properties={"mockbroker.replication": "real"} if rng.random() < 0.3 else None,
            stop_grace_ms=grace_ms,
        )
        stack.enter_context(cluster)
        fill_large_topic(cluster)
        for open_client in chosen:
            stack.enter_context(contextlib.closing(open_client(cluster)))
        if rng.random() < 0.3:
            _move_clock(cluster, stack)
        if not has_tls and rng.random() < 0.4:
            yield from _stop_proxy(cluster, grace_ms)
        yield from _stop(cluster, grace_ms, f"cluster with {names}")


def _stop(running: Cluster | Proxy, grace_ms: int, what: str) -> Iterator[str]:
    started_s = time.monotonic()
    running.stop()
    took_s = time.monotonic() - started_s
    if took_s > grace_ms / 1000 + _LIMIT_S:
        yield f"the stop of a {what} took {took_s:.1f} s; its grace is {grace_ms} ms"


def _stop_proxy(cluster: Cluster, grace_ms: int) -> Iterator[str]:
    """Stop a proxy with clients that send nothing, and parts of requests."""
    with Proxy(cluster.bootstrap_servers.split(",")[0], stop_grace_ms=grace_ms) as proxy, ExitStack() as stack:
        host, port = proxy.bootstrap_servers.split(":")
        for data in (b"", b"\0\0\0\x20", b"\0\0\0\x12\0\x12\0\x03"):
            sock = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
            sock.sendall(data)
        yield from _stop(proxy, grace_ms, "proxy with silent clients")


def _move_clock(cluster: Cluster, stack: ExitStack) -> None:
    """Move the clock by a century meanwhile, which the stop ends."""

    def move() -> None:
        with contextlib.suppress(RuntimeError, TimeoutError):
            cluster.clock.advance(_CENTURY_MS, timeout_s=600)

    thread = threading.Thread(target=move)
    thread.start()
    stack.callback(thread.join)
