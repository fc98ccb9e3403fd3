"""Random records, their batches, and mutations of them, read by the extension and by the Python code."""

from __future__ import annotations

import random
import struct

import numpy as np

from kwire.accelerator import NATIVE
from kwire.capture.columnar.body_walker import PADDING_SIZE
from kwire.capture.columnar.record_checks import check_in_columns
from kwire.capture.files.pcap import PcapLayout
from kwire.capture.index.scan.pcap_scanner import find_records, find_records_in_python
from kwire.errors import WireError
from kwire.records import Record, write_batch
from kwire.records.batch import HEADER_SIZE
from kwire.records.native_codec import RECORD_CODEC, SCAN_RECORDS
from kwire.records.record import BatchBase
from kwire.records.record_decoder import decode_records_pure
from tests.kwire.accelerator.mutations import mutated_bytes
from tests.support.comparing_record_codec import write_body_without_accelerator

_NAMES = ("trace", "größe", "鍵", "")
_BLOBS = (None, b"", b"key-12", b"v" * 63, b"v" * 64, b"x" * 9000)
_TIMES = (-1, 0, 1_700_000_000_000, 2**62, 2**63 - 1, -(2**63))
_OPEN_SPAN = (None, None, None, None)


def record_difference(chance: random.Random) -> str | None:
    """Compare a random batch and a mutation of it: None, or the difference with the input."""
    assert RECORD_CODEC is not None
    records = _random_records(chance)
    written = RECORD_CODEC.write_body(records, _OPEN_SPAN)
    if written is not None:
        expected = write_body_without_accelerator(records, _OPEN_SPAN)
        if written != expected:
            return f"{records!r} are written as {written!r}, by the Python code as {expected!r}"
    batches = b"".join(write_batch(records) for _ in range(chance.randint(1, 3)))
    if difference := _checking_difference(batches, chance):
        return difference
    body = write_batch(records)[HEADER_SIZE:]
    return _reading_difference(mutated_bytes(body, chance) if chance.random() < 0.9 else body, len(records), chance)


def _checking_difference(batches: bytes, chance: random.Random) -> str | None:
    """Compare the check of bodies with batches and mutations of them, and the search for records of a pcap file."""
    assert NATIVE is not None
    mutated = mutated_bytes(batches, chance)
    data = batches + mutated + bytes(PADDING_SIZE)
    ends = np.array([len(batches), len(batches) - 1, len(batches) + len(mutated)])
    begins = np.array([0, 0, len(batches)])
    begins, ends = begins[begins < ends], ends[begins < ends]
    native, expected = NATIVE.check_batches(data, begins, ends), check_in_columns(data, begins, ends).tobytes()
    if native != expected:
        return f"bodies {begins} to {ends} of {data.hex()} are checked as {native!r}, by the Python code {expected!r}"
    layout = PcapLayout(chance.choice("<>"), 1, chance.choice((16, 24)), chance.choice((8, 12)))
    parts = (
        bytes(layout.captured_at) + struct.pack(layout.order + "I", size) + bytes(layout.header_size - 4 + size)
        for size in (chance.choice((0, 5, 12, 300)) for _ in range(4))
    )
    packets = b"".join(part[: len(part) - layout.captured_at] for part in parts)
    packets = mutated_bytes(packets, chance) if chance.random() < 0.5 else packets
    limit = chance.choice((0, 1, 100, len(packets), 2**40))
    offsets, at = find_records(packets, limit, layout)
    expected_offsets, expected_at = find_records_in_python(packets, limit, layout)
    if (offsets.tolist(), at) == (expected_offsets.tolist(), expected_at):
        return None
    return f"records before {limit} of {layout} {packets.hex()}: {offsets} {at}, not {expected_offsets} {expected_at}"


def _random_records(chance: random.Random) -> list[Record]:
    gap = chance.choice((1, 1, 70, 9_000, 3_000_000))
    return [
        Record(
            at * gap,
            chance.choice(_TIMES),
            chance.choice(_BLOBS),
            chance.choice(_BLOBS),
            tuple((chance.choice(_NAMES), chance.choice(_BLOBS)) for _ in range(chance.choice((0, 0, 1, 3)))),
        )
        for at in range(chance.randint(1, 6))
    ]


def _reading_difference(body: bytes, count: int, chance: random.Random) -> str | None:
    assert RECORD_CODEC is not None
    assert SCAN_RECORDS is not None
    count = chance.choice((count, count, count, count + 1, 0, 2**31 - 1))
    base = BatchBase(count, chance.choice((0, 5, 2**63 - 10)), chance.choice(_TIMES), None, 0)
    given = f"{count} records in {body.hex()}, base offset {base.offset}, base timestamp {base.timestamp}"
    for is_strict in (True, False):
        native, pure = RECORD_CODEC.read(body, base, is_strict), _read_by_python_code(body, base, strict=is_strict)
        if (native is None) != isinstance(pure, WireError) or (native is not None and native != pure):
            return f"{given}, strict {is_strict}: the extension reads {native!r}, the Python code {pure!r}"
    scan = SCAN_RECORDS(body, count, base.timestamp)
    if scan is None:
        return None
    # As Kafka's broker, a scan accepts header names that are not UTF-8, and any negative length as null.
    lenient = _read_by_python_code(body, base, strict=False)
    if isinstance(lenient, WireError):
        return f"{given}: scanned as {scan}, but the Python code refuses it: {lenient}"
    times = [record.timestamp for record in lenient]
    if lenient and scan[4] != sum(len(record.headers) for record in lenient):
        return f"{given}: scanned as {scan}, but the records are {lenient!r}"
    if lenient and scan[:3] != (min(times), max(times), any(record.key is None for record in lenient)):
        return f"{given}: scanned as {scan}, but the records are {lenient!r}"
    return None


def _read_by_python_code(body: bytes, base: BatchBase, *, strict: bool) -> list[Record] | WireError:
    try:
        return decode_records_pure(body, base, strict=strict)
    except WireError as error:
        return error
