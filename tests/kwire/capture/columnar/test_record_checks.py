"""The accelerator checks record batches as the Python code does."""

from __future__ import annotations

import numpy as np
import pytest

from kwire.accelerator import NATIVE, is_accelerated
from kwire.capture.columnar.body_walker import PADDING_SIZE
from kwire.capture.columnar.record_checks import check_in_columns
from kwire.records import Record, write_batch
from tests.kwire.accelerator.growth import CALLS, growth

needs_accelerator = pytest.mark.skipif(not is_accelerated(), reason="the accelerator is not built")

BATCH = write_batch([Record(0, 1, b"k", b"value", ())])
LONG = write_batch([Record(at, 1, None, b"x" * size, ()) for at, size in enumerate((70_000, 1, 2, 3))])


def check(body: bytes) -> list[bool]:
    """The check of a body among others, by the Python code and by the accelerator, if there is one."""
    data = BATCH + body + BATCH + bytes(PADDING_SIZE)
    begins, ends = np.array([0, len(BATCH)]), np.array([len(BATCH), len(BATCH + body)])
    checks = [check_in_columns(data, begins, ends)]
    if NATIVE is not None:
        checks.append(np.frombuffer(NATIVE.check_batches(data, begins, ends), dtype=np.bool_))
    assert all(bool(each[0]) for each in checks)
    return [bool(each[1]) for each in checks]


@pytest.mark.parametrize("body", [BATCH, BATCH * 3, LONG, LONG + BATCH])
def test_complete_batches_with_their_checksums_are_valid(body: bytes) -> None:
    assert all(check(body))


@pytest.mark.parametrize("body", [BATCH, LONG])
def test_a_changed_byte_makes_a_body_invalid(body: bytes) -> None:
    for at in (8, 10, 16, 17, 20, 21, 23, 30, 57, 60, len(body) - 1):
        changed = body[:at] + bytes([body[at] ^ 0x81]) + body[at + 1 :]
        for whole in (changed, BATCH + changed, changed + BATCH):
            assert not any(check(whole)), at


@pytest.mark.parametrize("size", [1, 11, 16, 60, 61, len(BATCH) - 1])
def test_an_incomplete_batch_makes_a_body_invalid(size: int) -> None:
    assert not any(check(BATCH[:size]))
    assert not any(check(BATCH + BATCH[:size]))


@needs_accelerator
def test_a_body_that_is_empty_or_outside_of_the_data_is_not_valid() -> None:
    assert NATIVE is not None
    begins = np.array([0, -1, 0, 5, len(BATCH), 2**62, -(2**63)])
    ends = np.array([0, len(BATCH), len(BATCH) + 1, 0, len(BATCH), 2**63 - 1, 2**63 - 1])

    assert NATIVE.check_batches(BATCH, begins, ends) == bytes(len(begins))


@needs_accelerator
def test_wrong_arguments_are_refused_and_leave_no_references_behind() -> None:
    assert NATIVE is not None
    native, two = NATIVE, np.zeros(2, dtype=np.int64)

    def work() -> None:
        for arguments in ((b"", two), (b"", two, two[:1]), (b"", two, b"abc"), ("", two, two), (b"", two, None)):
            with pytest.raises((TypeError, ValueError)):
                native.check_batches(*arguments)
        native.check_batches(BATCH, two, two + len(BATCH))

    assert growth(work) < CALLS
