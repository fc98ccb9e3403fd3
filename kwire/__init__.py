"""The Kafka wire protocol in Python: messages, record batches, captures."""

from kwire.codec import Lenient, Oddity, decode, decode_lenient, encode, from_json, to_json
from kwire.errors import SchemaError, UnsupportedVersion, WireError

__all__ = [
    "decode",
    "encode",
    "to_json",
    "from_json",
    "decode_lenient",
    "Lenient",
    "Oddity",
    "WireError",
    "UnsupportedVersion",
    "SchemaError",
]
