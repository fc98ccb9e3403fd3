"""Records which messages are decoded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kwire.capture.columnar.levels.body_source import BodySource
from kwire.capture.columnar.levels.level_rows import BodyGroup
from kwire.capture.kafka.message_decoder import MessageDecoder
from kwire.registry import api_name


@contextmanager
def record_decoded_responses() -> Iterator[list[str]]:
    """The APIs of all responses that are decoded in the context, alone or together."""
    api_names: list[str] = []

    def record_call(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        if frame.f_code is MessageDecoder.decode_response.__code__:
            api_names.append(frame.f_locals["request"].api_name)
        elif frame.f_code is BodySource._decode.__code__ and frame.f_locals["name"].endswith("Response"):
            api_names.append(frame.f_locals["name"].removesuffix("Response"))
        elif frame.f_code is BodyGroup.decode.__code__ and frame.f_locals["kind"] == "Response":
            api_names.extend([api_name(frame.f_locals["self"].api_key)] * len(frame.f_locals["rows"]))

    sys.setprofile(record_call)
    try:
        yield api_names
    finally:
        sys.setprofile(None)
