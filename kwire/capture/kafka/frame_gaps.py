"""Why bytes of a stream belong to no frame: the texts of gaps, and of lengths that no frame has."""

from __future__ import annotations

import struct

from kwire.capture.kafka.heuristics import is_tls

# After this many invalid lengths a side is not Kafka, and is not searched for frames any more.
INVALID_LENGTHS_MAX = 32

MIDSTREAM_REASON = "the capture began inside the stream"
GAP_REASONS = {
    "lost": "bytes were not captured",
    "snaplen": "packets were captured only in part",
    "tls": "TLS records do not open",
}


def describe_length(length: int, size_max: int, *, is_request: bool) -> tuple[str, str]:
    """The kind and the reason of the gap that an invalid length of a frame causes."""
    if not is_request and is_tls(struct.pack(">i", length) + bytes(1)):
        return "tls", "the answer is a TLS record: the port speaks TLS, and the client does not"
    return "bad_length", f"a frame length of {length} is not within 0 and {size_max}"
