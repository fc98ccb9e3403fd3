"""Build the columns of bodies as JSON, for exchanges with valid bodies: each text is made of the span's data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kwire.capture.columnar.body_columns import exchanges_by_version
from kwire.capture.columnar.span_data import SpanData
from kwire.capture.rows.column import Phase
from kwire.capture.rows.columns import message_columns
from kwire.json_text import escape_text, json_texts_writer
from kwire.payload import RECORDS_FIELDS
from kwire.redact import redacted_json
from kwire.registry import api_name, codec_of_version, header_versions

if TYPE_CHECKING:
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.options import Options

COLUMNS = message_columns(Phase.JSON)
# Larger bodies do not occur twice.
_KNOWN_SIZE_MAX = 8192
_encode = msgspec.json.Encoder().encode


def json_texts(
    name: str, span: SpanData, exchanges: ExchangeColumns, options: Options, *, is_escaped: bool = False
) -> list[str | None]:
    """One of the columns, for exchanges that are completely in the span.

    Args: is_escaped: the texts are as inside a JSON string (`kwire.json_text.escape_text`).
    """
    is_request = name == "body_request"
    frame = exchanges.request.frame if is_request else exchanges.response.frame
    out: list[str | None] = [None] * len(exchanges)
    data = span.data
    for api_key, version, is_chosen in exchanges_by_version(exchanges):
        chosen = np.nonzero(is_chosen & (frame.size >= 0))[0]
        skip = exchanges.request.body[chosen] if is_request else 4 + (header_versions(api_key, version)[1] > 0)
        frame_at = span.positions(frame.at[chosen])
        at, end = (frame_at + skip).tolist(), (frame_at + frame.size[chosen]).tolist()
        message_name = f"{api_name(api_key)}{'Request' if is_request else 'Response'}"
        texts = _make_texts(message_name, version, data, (at, end), options, is_escaped=is_escaped)
        for row, text in zip(chosen.tolist(), texts, strict=True):
            out[row] = text
    return out


def _make_texts(
    name: str, version: int, data: bytes, ranges: tuple[list[int], list[int]], options: Options, *, is_escaped: bool
) -> list[str]:
    """The JSON texts of valid bodies. Args: ranges: where they begin and end."""
    begins, ends = ranges
    has_payload = options.payload and name in RECORDS_FIELDS
    write_each = None if has_payload else json_texts_writer(name, version, is_escaped=is_escaped)
    made = [None] * len(begins) if write_each is None else write_each(data, tuple(begins))
    read = codec_of_version(name, version).readers[version]
    # The texts of decoded messages: many connections begin with the same ones.
    known: dict[bytes, str] = {}
    texts: list[str] = []
    for text, begin, end in zip(made, begins, ends, strict=True):
        if text is not None:
            texts.append(text)
            continue
        body = data[begin:end]
        decoded = known.get(body)
        if decoded is None:
            message, _ = read(data, begin)
            tree = redacted_json(message, version, show_secrets=options.show_secrets, payload=options.payload)
            decoded = _encode(tree).decode()
            decoded = escape_text(decoded) if is_escaped else decoded
            if len(body) <= _KNOWN_SIZE_MAX:
                known[body] = decoded
        texts.append(decoded)
    return texts
