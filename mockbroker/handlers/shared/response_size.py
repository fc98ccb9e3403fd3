"""The size of a response as the quota of fetched bytes counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.codec import encode_parts

if TYPE_CHECKING:
    import msgspec

_LENGTH_SIZE = 4


def measure_response(response: msgspec.Struct, version: int) -> int:
    """The bytes of a body and of the length before it, without its header. Source: Kafka's FetchResponse.sizeOf."""
    return _LENGTH_SIZE + sum(map(len, encode_parts(response, version)))
