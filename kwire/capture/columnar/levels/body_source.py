"""Decode the bodies of exchanges one by one, where they cannot be decoded together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.columnar.body_columns import has_tags, message_name
from kwire.primitives import FAILURES
from kwire.registry import codec_of_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import msgspec

    from kwire.capture.columnar.body_reader import BodyReader
    from kwire.capture.columnar.exchange_builder import ExchangeBuilder
    from kwire.capture.columnar.span_data import SpanData
    from kwire.capture.index.arrays import Ints
    from kwire.capture.index.flows.frame_columns import FrameColumns
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.kafka.message_decoder import Message

# The correlation id, and the number of tags.
_FLEXIBLE_HEADER_SIZE = 5
NamedBody = tuple[str, "msgspec.Struct | None"]
"""The name of a message, and its body if it could be decoded."""


class BodySource:
    """Decodes the bodies of exchanges with usual headers."""

    def __init__(self, reader: BodyReader, span: SpanData, builder: ExchangeBuilder) -> None:
        """`reader` reads frames that are not in the span; `builder` decodes bodies that are unusual."""
        self._reader = reader
        self._span = span
        self._builder = builder

    def bodies(
        self, exchanges: ExchangeColumns, rows: Ints, needs_request: Callable[[int], bool]
    ) -> Iterator[tuple[int, NamedBody, NamedBody]]:
        """The number, the request and the response of each of these exchanges.

        Args: needs_request: whether an API's request is decoded, too, where there is a valid response.
        """
        chosen = exchanges.select(rows)
        request, response = chosen.request, chosen.response
        frames = zip(self._ranges(request.frame), request.body.tolist(), self._ranges(response.frame), strict=True)
        headers = zip(request.api_key.tolist(), request.api_version.tolist(), strict=True)
        for number, (key, version), (asked, skip, answered) in zip(rows.tolist(), headers, frames, strict=True):
            names = message_name(key, "Request"), message_name(key, "Response")
            has_response = answered[-1] >= 0
            is_asked = needs_request(key) or not has_response
            bodies = (
                self._decode(names[0], version, asked, skip) if is_asked else None,
                self._decode(names[1], version, answered, 4 + has_tags(key, version)) if has_response else None,
            )
            if (bodies[0] is None and is_asked) or (bodies[1] is None and has_response):
                ((_, exchange),) = self._builder.build_exchanges(exchanges.select(np.array([number])))
                bodies = _body(exchange.request), _body(exchange.response)
            yield number, (names[0], bodies[0]), (names[1], bodies[1])

    def _decode(self, name: str, version: int, frame: tuple[int, int, int, int], skip: int) -> msgspec.Struct | None:
        """The body behind this many bytes of a frame; None if it is not valid, or the header has tags."""
        begin, at, fragment_count, size = frame
        is_in_span, whole = begin >= 0, self._span.data
        data = whole[begin : begin + size] if is_in_span else self._reader.read_frame(at, fragment_count, size)
        read = codec_of_version(name, version).readers.get(version)
        if read is None or (skip == _FLEXIBLE_HEADER_SIZE and name.endswith("Response") and data[4]):
            return None
        try:
            body, end = read(data, skip)
        except FAILURES:
            return None
        return body if end <= len(data) else None

    def _ranges(self, frames: FrameColumns) -> Iterator[tuple[int, int, int, int]]:
        """Where each frame is in the span, -1 if it is not; and where it is in the file."""
        columns = self._span.positions(frames.at), frames.at, frames.fragment_count, frames.size
        return zip(*(column.tolist() for column in columns), strict=True)


def _body(message: Message | None) -> msgspec.Struct | None:
    return None if message is None else message.body
