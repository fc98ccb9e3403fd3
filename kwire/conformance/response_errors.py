"""The error codes of any response."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kwire.capture.kafka.message_fields import field_shape


def error_codes(response: msgspec.Struct) -> Iterator[int]:
    """The error code of a response; those of its parts if there is none, 0 included."""
    shape = field_shape(type(response))
    codes = [getattr(response, field) for field in shape.errors]
    if any(codes):
        yield from (code for code in codes if code)
        return
    for field in shape.error_children:
        children = getattr(response, field)
        for child in children if isinstance(children, list) else ():
            yield from error_codes(child)
    if not shape.error_children:
        yield from codes
