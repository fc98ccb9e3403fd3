"""What bodies of several resources have: base classes, limits, and data as text or as base64."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

import msgspec

#: The maximum of a wait, milliseconds.
WAIT_MS_MAX = 600_000

PositiveInt = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
#: Offsets and times are numbers of 64 bits.
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
#: Base64 with padding, by RFC 4648, section 4.
Base64 = Annotated[str, msgspec.Meta(extra_json_schema={"contentEncoding": "base64", "pattern": "^[A-Za-z0-9+/]*=*$"})]
PartitionIndex = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]


class RequestModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The base of the bodies and the parameters of requests."""


class ResponseModel(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of the bodies of responses."""


class NoParameters(RequestModel, frozen=True):
    """Operations without path and query parameters."""


def decode_data(text: str | None, base64_text: str | None, field: str) -> bytes | None:
    """Data that is given as text, which is encoded as UTF-8, or as base64; neither: null.

    Raises: ValueError for both, and for invalid base64.
    """
    if base64_text is None:
        return None if text is None else text.encode()
    if text is not None:
        raise ValueError(f"{field} and {field}Base64: expected one of them")
    try:
        return base64.b64decode(base64_text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{field}Base64: is not base64: {error}") from error


def encode_data(data: bytes | None) -> tuple[str | None, str | None]:
    """Data as text if it is UTF-8, else as base64."""
    if data is None:
        return None, None
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(data).decode()
