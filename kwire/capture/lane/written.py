"""The columns of bodies as JSON, of exchanges whose bodies were found good: decoded where they lie, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kwire.codec_table import Reader
from kwire.redact import shown
from kwire.registry import api_name, codec_of_name, header_versions

if TYPE_CHECKING:
    from kwire.capture.index.building.pairing import Exchanges
    from kwire.capture.lane.decoded import Span
    from kwire.capture.options import Options

COLUMNS = ("body_request", "body_response")
_encode = msgspec.json.Encoder().encode


def texts(name: str, span: Span, found: Exchanges, options: Options) -> list[str | None]:
    """One of the columns, for exchanges of which all that there is lies in the span."""
    is_request = name == "body_request"
    frame = found.request.frame if is_request else found.response.frame
    out: list[str | None] = [None] * len(found)
    key = (found.request.api_key << 16) | (found.request.api_version & 0xFFFF)
    for each in np.unique(key).tolist():
        api_key, version = each >> 16, (each & 0xFFFF ^ 0x8000) - 0x8000
        chosen = np.nonzero((key == each) & (frame.size >= 0))[0]
        skip = found.request.body[chosen] if is_request else 4 + (header_versions(api_key, version)[1] > 0)
        at = (frame.at[chosen] - span.base + skip).tolist()
        codec = codec_of_name(f"{api_name(api_key)}{'Request' if is_request else 'Response'}")
        for place, begin in zip(chosen.tolist(), at, strict=True):
            out[place] = _text(codec.readers[version], version, span.data, begin, options)
    return out


def _text(read: Reader, version: int, data: bytes, at: int, options: Options) -> str:
    message, _ = read(data, at)
    tree = shown(message, version, show_secrets=options.show_secrets, payload=options.payload)
    return _encode(tree).decode()
