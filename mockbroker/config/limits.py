"""`Limits`: what one client may cost this broker, by configurations that Kafka does not have.

Kafka bounds a batch by its compressed size alone, and runs each request in a thread of its own; here one thread serves
all clients, so the work for a batch and the memory for responses are bounded too.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mockbroker.config.keys import ConfigError

DECOMPRESSED_BYTES = "mockbroker.batch.decompressed.bytes"
COMPRESSED_RECORDS = "mockbroker.batch.compressed.records"
QUEUED_BYTES = "mockbroker.queued.response.bytes"
LIMIT_NAMES = (DECOMPRESSED_BYTES, COMPRESSED_RECORDS, QUEUED_BYTES)

#: The largest values of the first two: what readers of a log decode, for which a record or header counts 64 bytes.
READ_BYTES_MAX = 256 << 20
READ_RECORDS_MAX = READ_BYTES_MAX // 64


class BatchLimits(msgspec.Struct, frozen=True):
    """Of one compressed batch in a Produce request: its bytes when decompressed, and its records and their headers."""

    decompressed_bytes: int = 128 << 20
    compressed_records: int = 250_000


class Limits(msgspec.Struct, frozen=True):
    """queued_bytes: of the responses that wait for their clients to read them, of all connections together."""

    batch: BatchLimits = BatchLimits()
    queued_bytes: int = 512 << 20


def parse_limits(given: Mapping[str, str]) -> Limits:
    """Read the limits from the values that are set. Raises: ConfigError."""
    batch = BatchLimits()
    return Limits(
        BatchLimits(
            _parse_number(given, DECOMPRESSED_BYTES, batch.decompressed_bytes, 1 << 20, READ_BYTES_MAX),
            _parse_number(given, COMPRESSED_RECORDS, batch.compressed_records, 1, READ_RECORDS_MAX),
        ),
        _parse_number(given, QUEUED_BYTES, Limits().queued_bytes, 1 << 20, 1 << 40),
    )


def _parse_number(given: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = given.get(name, "").strip()
    if not text:
        return default
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
    if not low <= number <= high:
        raise ConfigError(f"{name}: {text!r} is no number from {low} to {high}")
    return number
