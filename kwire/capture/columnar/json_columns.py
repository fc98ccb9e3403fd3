"""Build the columns of bodies as JSON, for exchanges with valid bodies: each text is made of the span's data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kwire.capture.columnar.body_columns import exchanges_by_version
from kwire.capture.columnar.span_data import SpanData
from kwire.json_text import FAILURES, escape_text, json_writer
from kwire.payload import RECORDS_FIELDS
from kwire.redact import redacted_json
from kwire.registry import api_name, codec_of_name, header_versions

if TYPE_CHECKING:
    from kwire.capture.index.flows.pairing import ExchangeColumns
    from kwire.capture.options import Options
    from kwire.json_text import JsonWriter

COLUMNS = frozenset({"body_request", "body_response"})
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
        at = (span.positions(frame.at[chosen]) + skip).tolist()
        message_name = f"{api_name(api_key)}{'Request' if is_request else 'Response'}"
        write = _text_writer(message_name, version, options, is_escaped=is_escaped)
        for row, begin in zip(chosen.tolist(), at, strict=True):
            out[row] = write(data, begin)
    return out


def _text_writer(name: str, version: int, options: Options, *, is_escaped: bool) -> JsonWriter:
    """A function that returns the JSON text of a valid body."""
    has_payload = options.payload and name in RECORDS_FIELDS
    write = None if has_payload else json_writer(name, version, is_escaped=is_escaped)
    read = codec_of_name(name).readers[version]

    def write_decoded(data: bytes, at: int) -> str:
        """The text of the decoded message."""
        message, _ = read(data, at)
        tree = redacted_json(message, version, show_secrets=options.show_secrets, payload=options.payload)
        text = _encode(tree).decode()
        return escape_text(text) if is_escaped else text

    if write is None:
        return write_decoded
    write_bytes = write

    def write_any(data: bytes, at: int) -> str:
        """The text of the bytes; of the decoded message if they have anything unusual."""
        try:
            return write_bytes(data, at)
        except FAILURES:
            return write_decoded(data, at)

    return write_any
