"""The Kafka wire protocol in Python: messages, record batches, captures."""

from kwire.capture import read_capture
from kwire.codec import Lenient, Oddity, decode, decode_lenient, encode, from_json, to_json
from kwire.errors import SchemaError, UnsupportedVersion, WireError

__all__ = [
    "decode",
    "encode",
    "to_json",
    "from_json",
    "decode_lenient",
    "read_capture",
    "Lenient",
    "Oddity",
    "WireError",
    "UnsupportedVersion",
    "SchemaError",
]
