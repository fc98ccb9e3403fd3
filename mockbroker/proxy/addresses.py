"""The addresses of brokers in responses, replaced by those of the proxy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

_METADATA, _FIND_COORDINATOR, _DESCRIBE_CLUSTER = 3, 10, 60
#: Produce, Fetch, ShareFetch, ShareAcknowledge: they name the new leader's address beside NOT_LEADER_OR_FOLLOWER.
_WITH_LEADER_HINTS = frozenset({0, 1, 78, 79})
_BROKER_ENDPOINTS = 1

#: The address for clients of a node, by its id and its own address.
Localize = Callable[[int, str, int], tuple[str, int]]


def rewrite_addresses(api_key: int, response: msgspec.Struct, localize: Localize) -> None:
    """Replace the address of each broker in a response. The controllers that DescribeCluster lists stay as they are."""
    fields = cast("Any", response)
    if api_key == _METADATA:
        rows, id_field = fields.brokers, "node_id"
    elif api_key == _DESCRIBE_CLUSTER and getattr(fields, "endpoint_type", _BROKER_ENDPOINTS) == _BROKER_ENDPOINTS:
        rows, id_field = fields.brokers, "broker_id"
    elif api_key == _FIND_COORDINATOR:
        # Versions up to 3 have one coordinator, in the response itself.
        rows, id_field = [fields, *fields.coordinators], "node_id"
    elif api_key in _WITH_LEADER_HINTS:
        rows, id_field = fields.node_endpoints, "node_id"
    else:
        return
    for row in rows:
        if row.host and row.port > 0:
            row.host, row.port = localize(getattr(row, id_field), row.host, row.port)
