"""Build the columns of bodies as JSON, for exchanges with valid bodies: each body is decoded in the span's data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kwire.capture.columnar.body_columns import SpanData, exchanges_by_version
from kwire.redact import redacted_json
from kwire.registry import api_name, codec_of_name, header_versions

if TYPE_CHECKING:
    from kwire.capture.index.flows.pairing import ExchangeColumns
    from kwire.capture.options import Options

COLUMNS = frozenset({"body_request", "body_response"})
_encode = msgspec.json.Encoder().encode


def json_texts(name: str, span: SpanData, exchanges: ExchangeColumns, options: Options) -> list[str | None]:
    """One of the columns, for exchanges that are completely in the span."""
    is_request = name == "body_request"
    frame = exchanges.request.frame if is_request else exchanges.response.frame
    out: list[str | None] = [None] * len(exchanges)
    for api_key, version, is_chosen in exchanges_by_version(exchanges):
        chosen = np.nonzero(is_chosen & (frame.size >= 0))[0]
        skip = exchanges.request.body[chosen] if is_request else 4 + (header_versions(api_key, version)[1] > 0)
        at = (frame.at[chosen] - span.base + skip).tolist()
        read = codec_of_name(f"{api_name(api_key)}{'Request' if is_request else 'Response'}").readers[version]
        for row, begin in zip(chosen.tolist(), at, strict=True):
            message, _ = read(span.data, begin)
            tree = redacted_json(message, version, show_secrets=options.show_secrets, payload=options.payload)
            out[row] = _encode(tree).decode()
    return out
