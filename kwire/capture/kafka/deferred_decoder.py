"""Decodes only the fixed part of request headers, for readers that decode the bodies of many exchanges together."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from kwire import registry
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.message_decoder import API_VERSIONS, MessageDecoder, Request, Response

if TYPE_CHECKING:
    from kwire.capture.model import Frame

_HEAD = struct.Struct(">hhih")
_INT32 = struct.Struct(">i")
_PRODUCE, _SASL_HANDSHAKE, _SASL_AUTHENTICATE = 0, 17, 36
# What follows depends on their bodies: the client's name, and tokens without headers.
_ALWAYS_DECODED = frozenset({API_VERSIONS, _SASL_HANDSHAKE, _SASL_AUTHENTICATE})
# The transactional id comes first in requests from this version on, and is null in nearly all of them.
_PRODUCE_TRANSACTIONAL, _PRODUCE_FLEXIBLE = 3, 9


@dataclass(slots=True)
class DeferredRequest(Request):
    """A request of which only API, version and correlation id are decoded. `body_at`: where its body begins."""

    body_at: int = 0


@dataclass(slots=True)
class DeferredResponse(Response):
    """A response of which only the correlation id is decoded."""


class DeferredDecoder:
    """Decodes requests and responses as `MessageDecoder`, but defers those of the usual kind."""

    def __init__(self, decoder: MessageDecoder) -> None:
        """`decoder` decodes all others; it is one of the default edition."""
        self._decoder = decoder

    def decode_request(self, frame: Frame) -> Request:
        """Decode a request, or defer it if it is complete and its header has no tags."""
        data = frame.data
        if frame.damage is None and len(data) > _HEAD.size:
            api_key, version, correlation_id, size = _HEAD.unpack_from(data)
            versions = _versions_by_api().get(api_key)
            if versions is not None and 0 <= version <= versions[0] and size >= -1:
                at = _HEAD.size + max(size, 0)
                is_plain = at < len(data)
                if version >= versions[1]:
                    is_plain = is_plain and not data[at]
                    at += 1
                if is_plain and (api_key != _PRODUCE or _has_acks(data, version, at)):
                    return DeferredRequest(
                        frame,
                        api_key=api_key,
                        api_version=version,
                        version=version,
                        correlation_id=correlation_id,
                        body_at=at,
                    )
        return self._decoder.decode_request(frame)

    def decode_response(self, frame: Frame, request: Request | None) -> Response:
        """Decode a response, or defer it if its request was deferred and it is complete."""
        if not isinstance(request, DeferredRequest):
            return self._decoder.decode_response(frame, request)
        if frame.damage is None and len(frame.data) >= 4:
            return DeferredResponse(frame, correlation_id=_INT32.unpack_from(frame.data)[0])
        return self._decoder.decode_response(frame, self._decoder.decode_request(request.frame))

    def complete(self, exchange: Exchange) -> Exchange:
        """The exchange with both sides decoded."""
        request, response = exchange.request, exchange.response
        if not isinstance(request, DeferredRequest):
            return exchange
        whole = self._decoder.decode_request(request.frame)
        whole.number, whole.in_flight, whole.expects_response = (
            request.number,
            request.in_flight,
            request.expects_response,
        )
        whole.issues += request.issues
        if isinstance(response, DeferredResponse):
            order_ok = response.order_ok
            response = self._decoder.decode_response(response.frame, whole)
            response.order_ok = order_ok
        return Exchange(exchange.flow, exchange.client, whole, response, exchange.session)


def is_deferred(exchange: Exchange) -> bool:
    """Whether both sides of an exchange were deferred, and nothing is unusual about it."""
    request, response = exchange.request, exchange.response
    if not isinstance(request, DeferredRequest) or request.issues:
        return False
    return isinstance(response, DeferredResponse) or (response is None and not request.expects_response)


def _has_acks(data: bytes, version: int, at: int) -> bool:
    """Whether a Produce request certainly has a response: the acks follow a null transactional id, and are not 0."""
    if version < _PRODUCE_TRANSACTIONAL:
        return False
    size = 1 if version >= _PRODUCE_FLEXIBLE else 2
    null = b"\x00" if size == 1 else b"\xff\xff"
    acks = data[at + size : at + size + 2]
    return data[at : at + size] == null and len(acks) == 2 and acks != b"\x00\x00"


@cache
def _versions_by_api() -> dict[int, tuple[int, int]]:
    """The newest version of each API whose requests are deferred, and the first one whose header has tags."""
    out = {}
    for api_key in registry.API_KEYS:
        if api_key not in _ALWAYS_DECODED:
            versions = sorted(registry.codec_of_name(f"{registry.api_name(api_key)}Request").readers)
            flexible = [version for version in versions if registry.header_versions(api_key, version)[0] == 2]
            out[api_key] = versions[-1], flexible[0] if flexible else versions[-1] + 1
    return out
