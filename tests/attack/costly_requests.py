"""Small requests that cost much: batches that expand, many records and headers, broken data, many members of gzip.

The work and the memory are bounded by the configured limits, not by what the batch claims or expands to.
"""

from __future__ import annotations

import gzip
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from struct import pack, pack_into

from kwire.records import Codec, checksum
from kwire.records.batch import HEADER, HEADER_SIZE
from kwire.records.compression import compress
from kwire.records.varint import encode_unsigned
from mockbroker.config.limits import COMPRESSED_RECORDS, DECOMPRESSED_BYTES
from tests.support.brokers.broker import Broker
from tests.support.brokers.producer import produce
from tests.support.work_count import count_work

_PRODUCE = 13
_RECORDS, _BYTES = 2_000, 4 << 20
_CONFIG = {
    COMPRESSED_RECORDS: str(_RECORDS),
    DECOMPRESSED_BYTES: str(_BYTES),
    "max.decompressed.message.bytes": "1000000",
}
#: Each makes the broker look at records otherwise: at their keys, or to write them again.
_TOPIC_RULES: tuple[dict[str, str], ...] = ({}, {"log.cleanup.policy": "compact"}, {"compression.type": "lz4"})
#: For each record that is allowed: what the slowest decoder, that of invalid records, and the rewriting need.
_WORK_MAX = 1_000 * _RECORDS
#: The decompressed bytes, twice, and the objects of the records.
_MEMORY_MAX = 3 * _BYTES + 1_000 * _RECORDS
#: Seconds after which a request counts as a hang, however slow the machine is.
_HANG_S = 60.0

_CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


def attack(rng: random.Random, *, seconds: float) -> Iterator[str]:
    """Yield the batches that cost more than the limits allow."""
    end = time.monotonic() + seconds
    while True:
        for make in _SHAPES:
            batch = make(rng)
            for given in _TOPIC_RULES:
                broker = Broker(topics={"t": 1}, config={**_CONFIG, **given})
                yield from _send(broker, batch, f"{make.__name__} of {len(batch)} bytes with {given}")
                if time.monotonic() >= end:
                    return


def _send(broker: Broker, batch: bytes, what: str) -> Iterator[str]:
    request = produce(broker.topic("t"), batch)
    began = time.monotonic()
    tracemalloc.start()
    try:
        work = count_work(lambda: broker.call(request, _PRODUCE))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if work > _WORK_MAX:
        yield f"{what}: {work:,} instructions, {_WORK_MAX:,} at most"
    if peak > _MEMORY_MAX:
        yield f"{what}: {peak:,} bytes of memory, {_MEMORY_MAX:,} at most"
    if time.monotonic() - began > _HANG_S:
        yield f"{what}: more than {_HANG_S:g} s"


def frame_batch(body: bytes, count: int, codec: Codec, *, max_timestamp: int = 0) -> bytes:
    """A batch of these compressed records, with a valid header and checksum."""
    header = HEADER.pack(
        0, HEADER_SIZE - 12 + len(body), -1, 2, 0, int(codec), count - 1, 0, max_timestamp, -1, -1, -1, count
    )
    batch = bytearray(header + body)
    pack_into(">I", batch, 17, checksum.crc32c(bytes(batch[21:])))
    return bytes(batch)


def _tiny_record(key: bytes = b"\x01") -> bytes:
    return b"\x0c\0\0\0" + key + b"\x01\0"


def _many_records(rng: random.Random) -> bytes:
    codec, count = rng.choice(_CODECS), rng.choice((_RECORDS, _RECORDS + 1, 100 * _RECORDS))
    return frame_batch(compress(codec, _tiny_record() * count), count, codec)


def _wrong_count(rng: random.Random) -> bytes:
    codec = rng.choice(_CODECS)
    return frame_batch(compress(codec, _tiny_record() * 100), rng.choice((_RECORDS, (1 << 31) - 1)), codec)


def _lenient_lengths(rng: random.Random) -> bytes:
    codec = rng.choice(_CODECS)
    return frame_batch(compress(codec, _tiny_record(b"\x03") * _RECORDS), _RECORDS, codec, max_timestamp=9)


def _broken_end(rng: random.Random) -> bytes:
    codec = rng.choice(_CODECS)
    body = _tiny_record() * (_RECORDS - 1) + b"\x0c\0\0\0\x01\x01\x09"
    return frame_batch(compress(codec, body), _RECORDS, codec)


def _many_headers(rng: random.Random) -> bytes:
    codec, count = rng.choice(_CODECS), rng.choice((_RECORDS - 1, _RECORDS, 200 * _RECORDS))
    header = rng.choice((b"\0\x01", b"\x02\xff\x01"))
    fields = b"\0\0\0\x01\x01" + encode_unsigned(count << 1) + header * count
    record = encode_unsigned(len(fields) << 1) + fields
    return frame_batch(compress(codec, record), 1, codec, max_timestamp=rng.choice((0, 9)))


def _large_value(rng: random.Random) -> bytes:
    codec, size = rng.choice(_CODECS), rng.choice((900_000, 1_100_000, 3 * _BYTES))
    fields = b"\0\0\0\x01" + encode_unsigned(size << 1) + bytes(size) + b"\0"
    return frame_batch(compress(codec, encode_unsigned(len(fields) << 1) + fields), 1, codec)


def _many_members(rng: random.Random) -> bytes:
    members = gzip.compress(b"") * rng.choice((1, 5_000))
    return frame_batch(members + gzip.compress(_tiny_record()), 1, Codec.GZIP)


def _many_blocks(rng: random.Random) -> bytes:
    """Xerial blocks of snappy without content, and skippable frames of zstd."""
    if rng.random() < 0.5:
        head = pack(">8sii", b"\x82SNAPPY\x00", 1, 1)
        return frame_batch(head + (pack(">i", 1) + b"\0") * 5_000, 1, Codec.SNAPPY)
    return frame_batch(pack("<II", 0x184D2A50, 0) * 5_000 + compress(Codec.ZSTD, _tiny_record()), 1, Codec.ZSTD)


def _random_body(rng: random.Random) -> bytes:
    codec = rng.choice(_CODECS)
    body = bytearray(compress(codec, _tiny_record() * 500))
    for _ in range(rng.randrange(1, 4)):
        body[rng.randrange(len(body))] = rng.randrange(256)
    return frame_batch(bytes(body), 500, codec)


_SHAPES: tuple[Callable[[random.Random], bytes], ...] = (
    _many_records,
    _wrong_count,
    _lenient_lengths,
    _broken_end,
    _many_headers,
    _large_value,
    _many_members,
    _many_blocks,
    _random_body,
)
