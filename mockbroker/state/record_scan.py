"""A quick look over the records of a batch: all that an append has to know of them, and no copies.

An append needs timestamps, offsets and the presence of keys, not keys and values; decoding everything for that costs
three times as much. What this pass does not know it leaves to the full decoder, which also words the errors.
"""

from __future__ import annotations

import msgspec

from kwire.records import Batch, Codec
from kwire.records.batch import HEADER_SIZE
from kwire.records.compression import decompress


class Scan(msgspec.Struct, frozen=True, gc=False):
    """What the records of a batch have in common. Timestamps in milliseconds."""

    timestamp_min: int
    timestamp_max: int
    keyless: bool
    consecutive: bool


def scan(batch: Batch, max_bytes: int) -> Scan | None:
    """Walk over the records, or None when they need the full decoder: headers, wide varints, anything odd.

    Raises: what `decompress` raises.
    """
    payload = batch.raw[HEADER_SIZE:]
    data = bytes(payload) if batch.codec is Codec.NONE else decompress(batch.codec, payload, max_bytes)
    try:
        return _walk(data, batch.count, batch.base_timestamp)
    except IndexError:
        return None


def _walk(data: bytes, count: int, base_timestamp: int) -> Scan | None:  # noqa: C901, PLR0912
    """Varints here are zigzagged; those of one and two bytes are read in place, wider ones only where lengths are.

    One long loop, because a call for each varint would double its cost. Its layout is told in kwire.records.v2.
    """
    at, offsets, lowest, highest, keyless = 0, 0, 1 << 62, -1 << 62, False
    for index in range(count):
        raw, at = data[at], at + 1
        if raw > 127:
            raw, at = _wider(data, raw, at)
        end = at + (raw >> 1)
        raw, at = data[at + 1], at + 2
        if raw > 127:
            raw, at = _wider(data, raw, at)
        delta = (raw >> 1) ^ -(raw & 1)
        if delta < lowest:  # noqa: PLR1730 (min() would be a call)
            lowest = delta
        if delta > highest:  # noqa: PLR1730
            highest = delta
        raw, at = data[at], at + 1
        if raw > 127:
            raw, at = _wider(data, raw, at)
        if raw == index << 1:
            offsets += 1
        raw, at = data[at], at + 1
        if raw == 1:
            keyless = True
        else:
            if raw > 127:
                raw, at = _wider(data, raw, at)
            if raw & 1:
                return None
            at += raw >> 1
        raw, at = data[at], at + 1
        if raw != 1:
            if raw > 127:
                raw, at = _wider(data, raw, at)
            if raw & 1:
                return None
            at += raw >> 1
        if data[at] or at + 1 != end:
            return None
        at = end
    if at != len(data):
        return None
    return Scan(base_timestamp + lowest, base_timestamp + highest, keyless, offsets == count)


def _wider(data: bytes, first: int, at: int) -> tuple[int, int]:
    """The rest of a varint of two to four bytes; more is no business of the quick pass."""
    raw, shift = first & 0x7F, 7
    while shift < 28:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 128:
            return raw, at
        shift += 7
    raise IndexError
