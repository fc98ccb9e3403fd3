"""The accelerator reads and writes records as the Python code does, and leaves to it all that is unusual.

The other tests of this folder compare both as well (conftest.py).
"""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from kwire.accelerator import NATIVE
from kwire.errors import CorruptRecords
from kwire.records import Record, native_codec, parse_header, write_batch, writer
from kwire.records.native_codec import RECORD_CODEC, RecordCodec
from kwire.records.record import BatchBase
from kwire.records.record_decoder import decode_records, decode_records_pure
from tests.support.memory import memory_below

pytestmark = pytest.mark.skipif(RECORD_CODEC is None, reason="this process uses no accelerator")

NAMES = ("trace", "kind", "größe", "鍵", "")
BLOBS = (None, b"", b"k", b"key-12", b"v" * 63, b"v" * 64, b"x" * 200)
OPEN_SPAN = (None, None, None, None)
FIELDS = (0, 0, -1, -1, -1)
TIMES = (-1, 0, 7, 1_700_000_000_000, 2**62, 2**63 - 1, -(2**63))


def build_record(chance: random.Random, offset: int) -> Record:
    headers = tuple((chance.choice(NAMES), chance.choice(BLOBS)) for _ in range(chance.choice((0, 0, 1, 3, 12))))
    return Record(offset, chance.choice(TIMES), chance.choice(BLOBS), chance.choice(BLOBS), headers)


def build_body(chance: random.Random) -> tuple[bytes, int]:
    """The records of a batch without its header, and their count."""
    count = chance.randint(1, 6)
    gap = chance.choice((1, 1, 70, 9_000, 3_000_000))
    records = [build_record(chance, at * gap) for at in range(count)]
    return write_batch(records)[61:], count


def mutate(body: bytes, chance: random.Random) -> bytes:
    wrong = bytearray(body)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(wrong) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            wrong[at:] = b""
        elif kind == 1:
            wrong[at:at] = chance.randbytes(chance.randint(1, 10))
        elif kind == 2:
            wrong[at : at + 1] = bytes((chance.choice((0, 1, 2, 3, 127, 128, 129, 255)),))
        elif kind == 3:
            wrong[at : at + chance.randint(1, 4)] = b""
        else:
            wrong[at : at + 1] = chance.choice((b"\xff" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f", b"\x80" * 4 + b"\0"))
    return bytes(wrong)


def outcome_of(work: Callable[[], object]) -> object:
    """What a call returns, or its error."""
    try:
        return work()
    except (ValueError, TypeError, AttributeError) as error:
        return type(error), str(error)


def check_same_reading(data: bytes | memoryview, base: BatchBase) -> bool:
    """Compare both, strict and lenient; whether the accelerator could read the data."""
    for strict in (True, False):
        mixed = outcome_of(lambda: decode_records(data, base, strict=strict))  # noqa: B023 (called at once)
        assert mixed == outcome_of(lambda: decode_records_pure(bytes(data), base, strict=strict))  # noqa: B023
    assert RECORD_CODEC is not None
    return RECORD_CODEC.read(data, base, True) is not None


def test_mutated_records_give_the_same_records_or_the_same_error() -> None:
    chance = random.Random(15)
    readable = 0
    for _ in range(3_000):
        body, count = build_body(chance)
        wrong = mutate(body, chance)
        append_time = chance.choice((None, None, 5))
        base = BatchBase(chance.choice((count, count, count + 1)), chance.choice((0, 2**63 - 1)), 9, append_time, 0)
        readable += check_same_reading(wrong, base)

    assert 100 < readable < 2_000


def test_records_cut_at_every_byte_are_left_to_the_python_code() -> None:
    body, count = build_body(random.Random(4))
    base = BatchBase(count, 0, 0, None, 0)

    assert check_same_reading(body, base)
    for size in range(len(body)):
        assert not check_same_reading(body[:size], base)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x0c",
        b"\x00",
        b"\x0d\0\0\0\x01\x01\0",
        b"\xff\xff\xff\xff\x0f\0\0\0\x01\x01\0",
        b"\xfe\xff\xff\xff\x0f\0\0\0\x01\x01\0",
        b"\x80" * 10 + b"\x01",
        b"\x1e\0" + b"\xff" * 9 + b"\x01" + b"\0\x01\x01\0",
        b"\x1e\0" + b"\xff" * 9 + b"\x02" + b"\0\x01\x01\0",
        b"\x20\0" + b"\x80" * 10 + b"\x01" + b"\0\x01\x01\0",
        b"\x14\0\0\xff\xff\xff\xff\x0f\x01\x01\0",
        b"\x14\0\0\xff\xff\xff\xff\x1f\x01\x01\0",
        b"\x14\0\0\0\xfe\xff\xff\xff\x0f\x01\0",
        b"\x14\0\0\0\x01\xfe\xff\xff\xff\x0f\0",
        b"\x14\0\0\0\x01\x01\xfe\xff\xff\xff\x0f",
        b"\x14\0\0\0\x01\x01\xff\xff\xff\xff\x0f",
        b"\x0c\0\0\0\x03\x01\0",
        b"\x0e\0\0\0\x81\0\x01\0",
        b"\x10\0\0\0\x01\x01\x02\x01\x01",
        b"\x12\0\0\0\x01\x01\x02\x02\xff\x01",
        b"\x0c\0\0\0\x01\x01\x04",
    ],
)
@pytest.mark.parametrize("count", [1, 2**31 - 1])
def test_hostile_lengths_and_counts_give_the_error_of_the_python_code(body: bytes, count: int) -> None:
    for starts_at in (0, len(body)):
        base = BatchBase(count, 2**63 - 1, -(2**63), None, starts_at)
        with memory_below(200_000):
            check_same_reading(body, base)


def test_a_view_of_changeable_bytes_is_read_without_a_copy_of_it() -> None:
    body, count = build_body(random.Random(6))
    data = bytearray(b"#" * 7 + body + b"#" * 9)
    base = BatchBase(count, 0, 0, None, 0)

    assert check_same_reading(memoryview(data)[7 : 7 + len(body)], base)
    data.clear()  # No reading holds the buffer any longer.


def write_without_accelerator(records: Any, **options: Any) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "RECORD_CODEC", None)
        return write_batch(records, **options)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"base_offset": 3, "last_offset": 99},
    {"base_offset": -5},
    {"base_offset": 2**63},
    {"last_offset": 2**40},
    {"delete_horizon_ms": 17, "control": True},
    {"delete_horizon_ms": 2**64},
    {"max_timestamp": 2**63},
    {"producer_id": 2**63},
    {"producer_epoch": 40_000, "base_sequence": 5},
    {"base_sequence": 2**31, "transactional": True},
    {"partition_leader_epoch": 2**31},
    {"codec": "lz4", "base_offset": 3},
]
UNUSUAL: list[Any] = [
    [],
    (),
    (Record(4, 5),),
    [Record(5), Record(5)],
    [Record(5), Record(4)],
    [Record(0), Record(2**31)],
    [Record(2**63 - 1), Record(2**63)],
    [Record(-(2**63)), Record(5)],
    [Record(1, 2**63)],
    [Record(1, -(2**63)), Record(2, 2**63 - 1)],
    [Record(True, 1)],
    [Record(1, 1.5)],  # type: ignore[arg-type]
    [Record(1, 1, bytearray(b"k"), bytearray(b"v"))],  # type: ignore[arg-type]
    [Record(1, 1, "text")],  # type: ignore[arg-type]
    [Record(1, 1, None, None, [("name", b"v")])],  # type: ignore[arg-type]
    [Record(1, 1, None, None, (["name", b"v"],))],  # type: ignore[arg-type]
    [Record(1, 1, None, None, (("\ud800", b"v"),))],
    [Record(1, 1, None, None, (("name", "v"),))],  # type: ignore[arg-type]
    [Record(1, 1, None, None, ((None, b"v"),))],  # type: ignore[arg-type]
    [Record(1, 1, None, None, (("name", b"v", 3),))],  # type: ignore[arg-type]
    [Record(1), None],
]


@pytest.mark.parametrize("options", OPTIONS)
def test_writing_gives_the_bytes_or_the_error_of_the_python_code(options: dict[str, Any]) -> None:
    chance = random.Random(8)
    for count in (1, 2, 32, 33, 70):
        records = [build_record(chance, 3 + at * chance.choice((1, 5))) for at in range(count)]
        records.sort(key=lambda record: record.offset)
        expected = outcome_of(lambda: write_without_accelerator(records, **options))  # noqa: B023 (called at once)
        assert outcome_of(lambda: write_batch(records, **options)) == expected  # noqa: B023


@pytest.mark.parametrize("options", [{}, {"base_offset": 4}, {"codec": "snappy"}])
@pytest.mark.parametrize("case", range(len(UNUSUAL)))
def test_unusual_records_give_the_bytes_or_the_error_of_the_python_code(case: int, options: dict[str, Any]) -> None:
    records = UNUSUAL[case]

    assert outcome_of(lambda: write_batch(records, **options)) == outcome_of(
        lambda: write_without_accelerator(records, **options)
    )


def test_a_batch_without_a_failure_is_written_by_the_accelerator() -> None:
    """The other tests would pass as well if it left every batch to the Python code."""
    assert RECORD_CODEC is not None
    records = [build_record(random.Random(3), at) for at in range(50)]

    assert RECORD_CODEC.write_body(records, OPEN_SPAN) is not None
    assert RECORD_CODEC.write_batch(records, OPEN_SPAN, FIELDS, lambda _: 0) is not None


def test_an_error_of_the_checksum_is_raised() -> None:
    def fail(_: memoryview) -> int:
        raise CorruptRecords("batch", 0, "no checksum")

    assert RECORD_CODEC is not None
    with pytest.raises(CorruptRecords, match="no checksum"):
        RECORD_CODEC.write_batch([Record(0)], OPEN_SPAN, FIELDS, fail)


class Collected(msgspec.Struct):
    offset: int
    timestamp: int
    key: bytes
    value: bytes
    headers: tuple[Any, ...]


class Larger(Record, frozen=True, gc=False):
    extra: int = 0


class Lacking(msgspec.Struct, gc=False):
    offset: int


@pytest.mark.parametrize("record", [Collected, Larger, Lacking, dict])
def test_a_class_of_another_layout_is_refused(record: type[Any]) -> None:
    assert NATIVE is not None
    with pytest.raises((TypeError, AttributeError)):
        NATIVE.RecordCodec(record, BatchBase)


def test_without_the_layout_the_python_code_works_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(RuntimeWarning, match="by Python code"):
        assert native_codec.make_native("RecordCodec", Collected, BatchBase) is None
    monkeypatch.setattr(native_codec, "NATIVE", None)
    assert native_codec.make_native("RecordCodec", Record, BatchBase) is None


def test_a_codec_keeps_its_class_and_can_be_collected() -> None:
    assert NATIVE is not None

    class Own(msgspec.Struct, frozen=True, gc=False):
        offset: int
        timestamp: int
        key: bytes | None
        value: bytes | None
        headers: tuple[Any, ...]

    codec: RecordCodec = NATIVE.RecordCodec(Own, BatchBase)
    body, count = build_body(random.Random(2))
    records = codec.read(body, BatchBase(count, 0, 0, None, 0), True)
    assert records is not None
    assert {type(record).__name__ for record in records} == {"Own"}
    before = sys.getrefcount(Own)
    del codec
    gc.collect()
    assert sys.getrefcount(Own) == before - 1


def repeat_everything(bodies: list[tuple[bytes, int]], records: list[Record]) -> Iterator[None]:
    """One reading or writing at each step, valid and not."""
    assert RECORD_CODEC is not None
    while True:
        for body, count in bodies:
            RECORD_CODEC.read(body, BatchBase(count, 0, 0, None, 0), True)
            RECORD_CODEC.read(body, BatchBase(count, 0, 0, 12345678, 0), True)
        RECORD_CODEC.write_body(records, OPEN_SPAN)
        RECORD_CODEC.write_body([*records, None], OPEN_SPAN)  # type: ignore[list-item]
        RECORD_CODEC.write_batch(records, OPEN_SPAN, FIELDS, lambda _: 0)
        RECORD_CODEC.write_batch(records, (0, None, None, 2**64), FIELDS, lambda _: 0)
        yield


def measure_own_memory() -> int:
    """The bytes that this module has allocated: other threads of the test run allocate as well."""
    own = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, __file__)])
    return sum(statistic.size for statistic in own.statistics("filename"))


def test_reading_and_writing_leave_no_references_and_no_memory() -> None:
    chance = random.Random(1)
    bodies = [build_body(chance) for _ in range(30)]
    bodies += [(mutate(body, chance), count) for body, count in bodies for _ in range(3)]
    records = [build_record(chance, at) for at in range(40)]
    steps = repeat_everything(bodies, records)
    shared = (None, (), Record, b"", "", 12345678, *records, records[0].headers)
    tracemalloc.start()
    for _ in range(3):
        next(steps)
    # The interpreter itself drops hundreds of references to None when it first collects.
    gc.collect()
    counts = [sys.getrefcount(each) for each in shared]
    before = measure_own_memory()

    for _ in range(50):
        next(steps)

    gc.collect()
    after = measure_own_memory()
    tracemalloc.stop()
    # A leak would show 50 references, or an object of at least 28 bytes for each step.
    assert max(abs(now - then) for now, then in zip(map(sys.getrefcount, shared), counts, strict=True)) < 25
    assert after - before < 50 * 28


def test_header_names_of_a_batch_are_shared() -> None:
    records = [Record(at, 5, None, None, (("trace", b"1"), ("größe", b"2"), ("k", None))) for at in range(3)]

    read = parse_header(write_batch(records)).records()

    assert read == records
    assert read[0].headers[0][0] is read[2].headers[0][0]
