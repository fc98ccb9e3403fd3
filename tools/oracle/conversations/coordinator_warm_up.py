"""Waits until a broker's coordinators are loaded, so that responses of a first use do not occur in scripts."""

from __future__ import annotations

import time

import msgspec

from kwire import Client
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from tools.oracle.conversations.socket_brokers import wait_real_time

_LOADING_ERRORS = frozenset({14, 15, 16})  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_PATIENCE_S = 30.0
_PAUSE_S = 0.1
#: Enough names for each partition of the coordinators' topics.
_NAMES = tuple(f"warm-{number}" for number in range(20))


def warm_up(address: str, *, finds_share_coordinators: bool = True) -> None:
    """Wait until the coordinators of all types have loaded. Raises: TimeoutError."""
    keys = tuple(f"{name}:AAAAAAAAAAAAAAAAAAAAAQ:0" for name in _NAMES)
    with Client(address, client_id="warm-up", timeout_s=_PATIENCE_S) as client:
        for key_type, names in ((0, _NAMES), (1, _NAMES), (2, keys)):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=names)
            if key_type == 2 and not finds_share_coordinators:
                client.send(request, 6)  # Kafka 4.0.0 creates the topic then, but finds no coordinator.
            else:
                _send_until_loaded(client, request, 6)
        for name in _NAMES:
            _send_until_loaded(client, DescribeGroupsRequest(groups=(name,)), 5)
            _send_until_loaded(client, InitProducerIdRequest(name, 60_000), 4)


def _send_until_loaded(client: Client, request: msgspec.Struct, version: int) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        answer = client.send(request, version)
        rows = [answer, *getattr(answer, "coordinators", ()), *getattr(answer, "groups", ())]
        if not any(getattr(row, "error_code", 0) in _LOADING_ERRORS for row in rows):
            return
        wait_real_time(_PAUSE_S)
    raise TimeoutError(f"{type(request).__name__} is not answered within {_PATIENCE_S} s")
