"""Random faults on random requests: whatever faults do, the cluster raises nothing, and works when they are removed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

from kwire import headers
from kwire.errors import WireError
from kwire.messages.list_groups import ListGroupsRequest
from kwire.registry import API_KEYS, api_name, request_class
from mockbroker.faults import Fault, FaultError, FaultHandle
from mockbroker.faults.api_fields import api_fields
from mockbroker.faults.responses.response_arrays import response_specs
from mockbroker.faults.state_names import STATE_CHANGES
from tests.support.brokers.faulty_broker import FaultyBroker

_FAULTS, _REQUESTS, _CONNECTIONS = 5, 40, 4
_ERRORS = ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_MEMBER_ID", "UNSUPPORTED_VERSION", "COORDINATOR_LOAD_IN_PROGRESS")
#: Requests between brokers and of the controller, which have no client that faults are for.
_NAMES = [api_name(key) for key in API_KEYS if key < 100]


def attack(rng: random.Random, *, seconds: float) -> Iterator[str]:
    """Play rounds, each with a cluster of its own, until the time is over."""
    until = time.monotonic() + seconds
    while True:
        yield from _play(rng)
        if time.monotonic() >= until:
            return


def _play(rng: random.Random) -> Iterator[str]:
    broker = FaultyBroker(nodes=2)
    handles = [handle for _ in range(_FAULTS) if (handle := _add(broker, rng)) is not None]
    faults = [handle.fault for handle in handles]
    shown = [repr(fault.to_json()) for fault in faults]
    for number in range(_REQUESTS):
        name = rng.choice([str(fault.when.api) for fault in faults if isinstance(fault, Fault)] or _NAMES)
        problem = _send(broker, name if name != "None" else rng.choice(_NAMES), number, rng)
        if problem is not None:
            yield f"{problem}; faults: {', '.join(shown)}"
            return
        if handles and rng.random() < 0.3:
            _move(rng.choice(handles), rng)
    yield from _check_end(broker, shown)


def _check_end(broker: FaultyBroker, shown: list[str]) -> Iterator[str]:
    """Without faults all goes on."""
    try:
        broker.faults.clear()
        broker.core.advance(broker.now_ms + 200_000)
        broker.core.take_output()
        broker.now_ms += 200_000
        answer = broker.call(ListGroupsRequest(), 5, connection="last")
    except Exception as error:
        yield f"after all faults were removed: {error!r}; faults: {', '.join(shown)}"
        return
    if answer is None or answer.error_code:
        yield f"after all faults were removed ListGroups got {answer}; faults: {', '.join(shown)}"


def _move(handle: FaultHandle, rng: random.Random) -> None:
    """Hold or release at any time."""
    if rng.random() < 0.5:
        handle.hold()
    else:
        handle.release(rng.choice((None, 1, 2)))


def _add(broker: FaultyBroker, rng: random.Random) -> FaultHandle | None:
    """Add a random fault; None if it can never act."""
    api = rng.choice(_NAMES)
    options: dict[str, Any] = {}
    for _ in range(rng.randint(1, 3)):
        options |= _action(api, rng)
    for name in sorted(api_fields(api).selectors):
        if rng.random() < 0.3:
            options[name] = 0 if name == "partition" else rng.choice(("A", "g", "m"))
    options |= {"after": rng.random() < 0.5, "times": rng.choice((None, 1, 3)), "every": rng.randint(1, 2)}
    try:
        return broker.faults.add(api, **options)
    except FaultError:
        return None


def _action(api: str, rng: random.Random) -> dict[str, Any]:
    paths = [path for path, spec in response_specs(api).items() if spec.is_array] or ["none"]
    leaves = [path for path, spec in response_specs(api).items() if spec.struct is None]
    return rng.choice(
        [
            {"error": rng.choice(_ERRORS)},
            {"omit_rows": rng.choice(paths)},
            {"double_rows": rng.choice(paths)},
            {"empty_arrays": rng.choice(paths)},
            {"set_fields": {rng.choice(leaves): rng.choice((0, -1, 7, "", "x", None, True, 1 << 40))}},
            {"response": rng.choice(({}, {"errorCode": 3}, {"throttleTimeMs": 5}))},
            {"length_prefix": rng.choice((0, -1, 9, 1 << 30))},
            {"state": rng.choice(tuple(STATE_CHANGES))},
            {"hold": True},
            {"delay_ms": rng.randint(0, 500), "jitter_ms": rng.randint(0, 5)},
            {"throttle_ms": rng.randint(0, 2_000)},
            {"answer": rng.choice(("twice", "late", "never"))},
            {"drop": rng.choice(("close", "reset", "half-close"))},
            {"truncate": rng.randint(0, 40)},
            {"flip_bits": rng.randint(1, 9)},
            {"max_versions": {"ApiVersions": rng.randint(-1, 4)}},
            {"unknown_tags": True},
        ]
    )


def _send(broker: FaultyBroker, api: str, number: int, rng: random.Random) -> str | None:
    """Send a request of this API on one of some connections. Returns: what went wrong in the cluster."""
    cls = request_class(next(key for key in API_KEYS if api_name(key) == api))
    version = rng.randint(*cls.VERSIONS)  # type: ignore[attr-defined]
    try:
        frame = headers.encode_request(_fill(cls(), rng), version, number, f"client-{number % _CONNECTIONS}")
    except WireError:
        return None
    try:
        broker.core.submit(_connection(broker, f"c{number % _CONNECTIONS}"), frame, broker.now_ms)
        broker.now_ms += rng.choice((0, 1, 300))
        broker.core.advance(broker.now_ms)
        for output in broker.core.take_output():
            if type(output).__name__ == "Close":
                broker.core.disconnect(output.connection_id, broker.now_ms)
    except Exception as error:
        return f"{api} v{version}: {error!r}"
    return None


def _connection(broker: FaultyBroker, name: str) -> int:
    number = broker.connect(name)
    if not broker.core.is_connected(number):
        del broker._connections[name]
        number = broker.connect(name)
    return number


def _fill(request: Any, rng: random.Random) -> Any:
    """Some names and numbers in the fields at the top of a request."""
    for name in request.__struct_fields__:
        if name in ("group_id", "member_id", "transactional_id", "key") and rng.random() < 0.7:
            setattr(request, name, {"group_id": "g", "member_id": "m"}.get(name, "t"))
    return request
