"""Error messages that are too long to be encoded: a name of 32,767 bytes in a request does not fit into one.

Kafka fails to write such a response, and never answers; here the client gets the error with a shorter message.
"""

from __future__ import annotations

from typing import Any

import msgspec

#: Bytes that a message keeps of its beginning, in UTF-8; a string has 32,767 at most.
KEPT_BYTES = 8_000
_LIMIT = 32_767
_MESSAGE_FIELDS = ("error_message", "batch_index_error_message")


def shorten_messages(response: msgspec.Struct) -> bool:
    """Shorten the error messages of a response that are too long, in place. Returns: whether there was one."""
    found = False
    for name in response.__struct_fields__:
        value: Any = getattr(response, name)
        if type(value) is list:
            for element in value:
                if isinstance(element, msgspec.Struct) and shorten_messages(element):
                    found = True
        elif isinstance(value, msgspec.Struct):
            found = shorten_messages(value) or found
        elif name in _MESSAGE_FIELDS and type(value) is str and len(value.encode("utf-8", "replace")) > _LIMIT:
            setattr(response, name, _shorten(value))
            found = True
    return found


def _shorten(message: str) -> str:
    kept = message.encode("utf-8", "replace")[:KEPT_BYTES].decode("utf-8", "ignore")
    return f"{kept}... ({len(message):,} characters)"
