"""Records which messages are decoded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from kwire.capture.columnar.levels.body_source import BodySource
from kwire.capture.columnar.levels.level_rows import BodyGroup
from kwire.capture.kafka.message_decoder import MessageDecoder
from kwire.registry import api_name


@contextmanager
def record_decoded_responses() -> Iterator[list[str]]:
    """The APIs of all responses that are decoded in the context, alone or together."""
    api_names: list[str] = []
    decode_response, decode_body, decode_group = MessageDecoder.decode_response, BodySource._decode, BodyGroup.decode

    # Not by `sys.setprofile`, with which everything takes four times as long.
    def record_response(self: MessageDecoder, frame: Any, request: Any) -> Any:
        api_names.append(request.api_name)
        return decode_response(self, frame, request)

    def record_body(self: BodySource, name: str, *arguments: Any) -> Any:
        if name.endswith("Response"):
            api_names.append(name.removesuffix("Response"))
        return decode_body(self, name, *arguments)

    def record_group(self: BodyGroup, kind: str, rows: Any, wanted: Any) -> Any:
        if kind == "Response":
            api_names.extend([api_name(self.api_key)] * len(rows))
        return decode_group(self, kind, rows, wanted)

    with (
        patch.object(MessageDecoder, "decode_response", record_response),
        patch.object(BodySource, "_decode", record_body),
        patch.object(BodyGroup, "decode", record_group),
    ):
        yield api_names
