"""Asks the cluster behind a proxy for its brokers and for the versions of ApiVersions."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, cast

import msgspec

from kwire.codec import decode_lenient
from kwire.errors import WireError
from kwire.headers import decode_response_header, encode_request
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.registry import api_versions, response_class
from mockbroker.proxy.upstream import Endpoint, ForwardedRequest, UpstreamConnection

_METADATA, _API_VERSIONS = 3, 18
_TIMEOUT_S = 15.0


class ClusterInfo(NamedTuple):
    """brokers: id, host and port of each, by id; empty for a cluster that gives them to authenticated clients only."""

    brokers: list[tuple[int, str, int]]
    api_versions_max: int


async def look_up(endpoint: Endpoint) -> ClusterInfo:
    """Ask a broker. Raises: ConnectionError if it cannot be reached, or is no Kafka."""
    connection = UpstreamConnection(endpoint, lambda: None)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            offered = cast("Any", await _ask(connection, ApiVersionsRequest(), 0))
            if offered is None:
                raise ConnectionError(connection.failure)
            ranges = {row.api_key: row.max_version for row in offered.api_keys}
            version = min(ranges.get(_METADATA, 0), api_versions(_METADATA)[1])
            metadata = cast("Any", await _ask(connection, MetadataRequest(topics=[]), version))
    except TimeoutError as error:
        raise ConnectionError(f"{endpoint} did not answer within {_TIMEOUT_S:.0f} s") from error
    except WireError as error:
        raise ConnectionError(f"{endpoint} does not answer as Kafka does: {error}") from error
    finally:
        connection.close()
        await connection.wait_closed()
    rows = [] if metadata is None else [(row.node_id, row.host, row.port) for row in metadata.brokers]
    newest = min(ranges.get(_API_VERSIONS, 0), api_versions(_API_VERSIONS)[1])
    return ClusterInfo(sorted(rows), newest)


async def _ask(connection: UpstreamConnection, request: msgspec.Struct, version: int) -> msgspec.Struct | None:
    """The response; None if the broker closes the connection instead, as it does before authentication."""
    answered = asyncio.Event()
    forwarded = ForwardedRequest(version + 1, answered.set)
    connection.send(encode_request(request, version, forwarded.correlation_id, "mockbroker-proxy"), forwarded)
    await answered.wait()
    if forwarded.response is None:
        return None
    kind = type(request)
    api_key: int = cast("Any", kind).API_KEY
    _, at = decode_response_header(forwarded.response, api_key, version)
    return decode_lenient(response_class(api_key), version, forwarded.response, at=at).message
