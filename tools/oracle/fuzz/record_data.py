"""Records of Produce requests: batches of several forms, and bytes that are none."""

from __future__ import annotations

import base64
import random

from kwire.records import Record, write_batch

#: The time of all records, so that a script is the same in each run.
TIMESTAMP_MS = 1_700_000_000_000
_CODECS = ("none", "none", "gzip", "lz4", "zstd", "snappy")


def record_batches(rng: random.Random) -> str | None:
    """Bytes of a `records` field in base64; None for null."""
    chance = rng.random()
    if chance < 0.005:
        return None
    if chance < 0.03:
        return base64.b64encode(rng.choice([b"\x00", b"garbage" * 20])).decode()
    codec, magic = rng.choice(_CODECS), rng.choice([2, 2, 2, 2, 2, 1, 0])
    if magic < 2 and codec == "zstd":
        codec = "none"
    count = rng.randrange(1, 5)
    records = [
        Record(
            offset=index,
            timestamp=TIMESTAMP_MS + index,
            key=None if rng.random() < 0.6 else f"k{rng.randrange(3)}".encode(),
            value=b"v" * rng.choice([0, 1, 10, 100]),
        )
        for index in range(count)
    ]
    data = bytearray(write_batch(records, codec=codec, magic=magic))
    if chance < 0.08:
        data[-1] ^= 0x55
    elif chance < 0.1:
        data = data[: rng.randrange(1, len(data))]
    elif chance < 0.13:
        data = data + data
    return base64.b64encode(bytes(data)).decode()
