"""Totals of record batches, from their headers."""

from __future__ import annotations

import random

from kwire.payload import summarize_batches, summarize_records, total_records
from kwire.records import Codec, Record, write_batch

ONE = write_batch([Record(offset=number, value=b"a" * 30) for number in range(3)])
PACKED = write_batch([Record(value=b"a" * 30)], codec=Codec.GZIP)


def assert_totals(records: bytes) -> None:
    summary = summarize_batches(records)
    for form in (records, memoryview(records)):
        assert summarize_records(form) == summary, records.hex()
        assert total_records(form) == (summary["count"], summary["codec"]), records.hex()


def test_totals_are_those_of_the_summary() -> None:
    for records in (b"", ONE, ONE * 3, PACKED, PACKED * 2, ONE + PACKED, ONE[:-1], ONE + ONE[:70], ONE + ONE[:20]):
        assert_totals(records)
    assert total_records(ONE * 2) == (6, "none")
    assert total_records(PACKED) == (1, "gzip")


def test_totals_of_damaged_batches_are_those_of_the_summary() -> None:
    chance = random.Random(7)
    for _ in range(2000):
        records = bytearray(ONE + PACKED + ONE)
        for _ in range(chance.randrange(1, 4)):
            # Mostly in a header.
            begin = chance.choice([0, len(ONE), len(ONE) + len(PACKED)])
            records[begin + chance.randrange(61)] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
        assert_totals(bytes(records[: chance.randrange(len(records)) if chance.random() < 0.3 else None]))
