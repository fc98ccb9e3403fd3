"""The accelerator reads the headers of batches as the Python code does, and leaves to it all that is unusual."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable

import msgspec
import pytest

from kwire.accelerator import NATIVE
from kwire.errors import CorruptRecords
from kwire.records import Batch, Record, parse_header, read_batches, reader, write_batch
from kwire.records.reader import READ_BATCH

needs_accelerator = pytest.mark.skipif(READ_BATCH is None, reason="this process uses no accelerator")

ONE = write_batch(
    [Record(3, 70_000, b"k", b"v"), Record(9, 5)], producer_id=2**40, producer_epoch=7, base_sequence=2**30
)
EMPTY = ONE[:8] + struct.pack(">i", 49) + ONE[12:57] + bytes(4)
SAMPLES = [ONE, EMPTY, write_batch([Record(3, 7, b"k")], magic=1), write_batch([Record(3, -1, b"k")], magic=0)]


def parse_header_pure(data: bytes | bytearray | memoryview, offset: int) -> Batch:
    """The header as the Python code reads it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "READ_BATCH", None)
        return parse_header(data, offset)


def outcome_of(work: Callable[[], object]) -> object:
    try:
        return work()
    except CorruptRecords as error:
        return str(error)


def check_same(data: bytes | bytearray | memoryview, offset: int = 0) -> bool:
    """Compare both; whether the accelerator could read the header."""
    assert READ_BATCH is not None
    expected = outcome_of(lambda: parse_header_pure(data, offset))
    assert outcome_of(lambda: parse_header(data, offset)) == expected
    batch = READ_BATCH(data, offset)
    assert batch is None or batch == expected
    # An invalid batch, or one of an old format, is left to the Python code.
    assert (batch is not None) == (type(expected) is Batch)
    return batch is not None


@needs_accelerator
@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_headers_are_the_same_at_every_offset(wrap: type[bytes | bytearray | memoryview]) -> None:
    data = wrap(b"".join(SAMPLES))

    assert [check_same(data, offset) for offset in (0, len(ONE), len(ONE) + len(EMPTY))] == [True, True, False]
    for offset in range(len(data) + 2):
        check_same(data, offset)
    for offset in (-1, -len(data)):
        assert READ_BATCH is not None
        assert READ_BATCH(data, offset) is None


@needs_accelerator
def test_changed_and_truncated_headers_give_the_same_batch_or_error() -> None:
    chance = random.Random(3)
    for size in range(len(ONE)):
        assert not check_same(ONE[:size])
    for at in range(61):
        for value in (0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)):
            check_same(ONE[:at] + bytes((value,)) + ONE[at + 1 :])
    check_same(struct.pack(">q", 2**63 - 1) + ONE[8:])
    check_same(struct.pack(">q", -(2**63)) + ONE[8:])


@needs_accelerator
def test_a_batch_is_a_view_of_the_bytes_that_were_read() -> None:
    data = bytearray(b"##" + ONE + b"###")
    whole = memoryview(data)[2:]
    for source, offset in ((data, 2), (whole, 0), (whole.toreadonly(), 0)):
        batch, expected = parse_header(source, offset), parse_header_pure(source, offset)
        assert (bytes(batch.raw), batch.raw.obj, batch.raw.readonly) == (ONE, data, expected.raw.readonly)
        assert (batch.raw.nbytes, batch.raw.shape, bytes(batch.raw[5:9])) == (len(ONE), (len(ONE),), ONE[5:9])
    data[2 + 16] = 2
    with pytest.raises(BufferError):
        data.clear()


@needs_accelerator
def test_views_of_other_elements_are_left_to_the_python_code() -> None:
    assert READ_BATCH is not None
    doubled = bytes(byte for pair in zip(ONE, ONE, strict=True) for byte in pair)

    assert READ_BATCH(memoryview(ONE).cast("b"), 0) is None
    assert READ_BATCH(memoryview(doubled)[::2], 0) is None
    assert READ_BATCH(memoryview(bytes(80)).cast("B", (8, 10)), 0) is None
    for wrong in ("text", None):
        with pytest.raises(TypeError):
            READ_BATCH(wrong, 0)  # type: ignore[arg-type]


@needs_accelerator
def test_a_class_of_another_layout_is_refused() -> None:
    class Less(msgspec.Struct, gc=False):
        base_offset: int

    assert NATIVE is not None
    with pytest.raises((TypeError, AttributeError)):
        NATIVE.BatchReader(Less)


@needs_accelerator
def test_reading_headers_leaves_no_references() -> None:
    data = bytearray(ONE)
    shared = (Batch, data)
    parse_header(data)
    before = [sys.getrefcount(each) for each in shared]

    for _ in range(100):
        parse_header(data)
        with pytest.raises(CorruptRecords):
            parse_header(data, 1)

    assert max(abs(sys.getrefcount(each) - then) for each, then in zip(shared, before, strict=True)) < 50
    data.clear()  # No view of it is left.


@pytest.mark.parametrize("is_native", [pytest.param(True, marks=needs_accelerator), False])
def test_batches_before_an_incomplete_one_are_read(is_native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_native:
        monkeypatch.setattr(reader, "READ_BATCH", None)
    data = b"".join((*SAMPLES, ONE[:-1]))

    assert [bytes(batch.raw) for batch in read_batches(data, partial_ok=True, verify=False)] == SAMPLES
    batches = read_batches(data, verify=False)
    assert [bytes(next(batches).raw) for _ in SAMPLES] == SAMPLES
    with pytest.raises(CorruptRecords):
        next(batches)
