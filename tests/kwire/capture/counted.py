"""What a reading cost: which messages it decoded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kwire.capture.bodies import Decoder


@contextmanager
def responses_decoded() -> Iterator[list[str]]:
    """The API of every response that is decoded meanwhile."""
    found: list[str] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is Decoder.response.__code__:
            found.append(frame.f_locals["request"].api_name)

    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(None)
