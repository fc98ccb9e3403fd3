"""Connections that send parts of requests, or nothing, to the HTTP servers of a cluster: others are still answered."""

from __future__ import annotations

import random
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

from mockbroker import Cluster

#: How many connections are open at the same time, of which most systems allow a process 1,024.
_OPEN_MAX = 600
#: How long an answer may take while they are open, seconds.
_ANSWER_S = 5.0
_REQUEST = (
    b"POST /v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 900\r\n\r\n{"name": "orders"'
)


def attack(rng: random.Random, *, seconds: float) -> Iterator[str]:
    """Rounds of half-open connections to the control and the token endpoint. Yields: answers that did not come."""
    until = time.monotonic() + seconds
    with Cluster(control=0, sasl="OAUTHBEARER alice:secret") as cluster:
        targets = (f"{cluster.control_url}/v1/cluster", cluster.oauth.jwks_url)
        while True:
            for url in targets:
                yield from _attack_server(rng, url)
            if time.monotonic() > until:
                return


def _attack_server(rng: random.Random, url: str) -> Iterator[str]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    with ExitStack() as stack:
        for _ in range(rng.randrange(_OPEN_MAX // 2, _OPEN_MAX)):
            connection = stack.enter_context(socket.create_connection((parts.hostname, parts.port or 0), timeout=10))
            try:
                connection.sendall(_REQUEST[: rng.choice((0, rng.randrange(len(_REQUEST))))])
            except ConnectionError:  # It was closed for a newer one.
                continue
        started = time.monotonic()
        try:
            with urllib.request.urlopen(url, timeout=_ANSWER_S) as answer:
                answer.read()
        except (OSError, urllib.error.URLError) as error:
            yield f"{url}: {error} after {time.monotonic() - started:.1f} s, expected an answer"
