"""Changes of the bytes of a response: another correlation id, inverted bits, a wrong CRC of record batches."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, cast

import msgspec

_ID_SIZE = 4
#: The CRC-32C of a record batch of magic 2, and its length. Source: KIP-98, "Message Format".
_CRC_AT = 17
_CRC_END = 21


def change_correlation_id(body: bytes) -> bytes:
    """The frame body with the id of no request that the client has sent lately."""
    wrong_id = (int.from_bytes(body[:_ID_SIZE], "big") + 1_000_003) & 0x7FFFFFFF
    return wrong_id.to_bytes(_ID_SIZE, "big") + body[_ID_SIZE:]


def flip_bits(body: bytes, count: int, rng: random.Random) -> bytes:
    """The frame body with `count` distinct bits inverted, or all of them; the correlation id stays."""
    changed = bytearray(body)
    bit_count = (len(body) - _ID_SIZE) * 8
    for bit in rng.sample(range(bit_count), min(count, bit_count)):
        changed[_ID_SIZE + bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def corrupt_crc(records: bytes | memoryview | None) -> bytes | memoryview | None:
    """Record batches of which the first one has a wrong CRC; what is no batch stays as it is."""
    if records is None or len(records) < _CRC_END:
        return records
    changed = bytearray(records)
    changed[_CRC_AT] ^= 1
    return bytes(changed)


def corrupt_rows(rows: Iterable[msgspec.Struct]) -> None:
    """Let the record batches in these rows of partitions have a wrong CRC."""
    for row in rows:
        records = getattr(row, "records", None)
        if records:
            cast(Any, row).records = corrupt_crc(records)
