"""Records which messages are decoded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kwire.capture.kafka.message_decoder import MessageDecoder


@contextmanager
def record_decoded_responses() -> Iterator[list[str]]:
    """The APIs of all responses that are decoded in the context."""
    api_names: list[str] = []

    def record_call(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is MessageDecoder.decode_response.__code__:
            api_names.append(frame.f_locals["request"].api_name)

    sys.setprofile(record_call)
    try:
        yield api_names
    finally:
        sys.setprofile(None)
