"""Control records: golden ones by type, and written markers."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from kwire.errors import CorruptRecords, Truncated
from kwire.records import (
    ControlType,
    Record,
    ShareControlType,
    read_batches,
    read_control,
    write_marker,
    write_share_control,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "batches.jsonl.gz"


def golden_control_records() -> list[Record]:
    with gzip.open(GOLDEN, "rt") as lines:
        data = b"".join(bytes.fromhex(json.loads(line)["hex"]) for line in lines)
    return [record for batch in read_batches(data) if batch.is_control for record in batch.records()]


def test_golden_control_records_have_all_seven_types() -> None:
    seen = Counter(read_control(record).type for record in golden_control_records())

    assert set(seen) == set(ControlType)
    assert sum(seen.values()) == 35


def test_a_golden_marker_has_the_epoch_of_its_coordinator() -> None:
    (control,) = (read_control(record) for record in golden_control_records() if record.offset == 17207735342)

    assert (control.type, control.version, control.coordinator_epoch) == (ControlType.COMMIT, 0, 2)


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_a_marker_is_a_transactional_control_batch_without_sequence(kind: ControlType) -> None:
    data = write_marker(kind, producer_id=9, producer_epoch=2, coordinator_epoch=6, timestamp=1000, base_offset=77)

    (batch,) = read_batches(data)
    (record,) = batch.records()
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 2, -1)
    assert (record.offset, record.timestamp) == (77, 1000)
    assert (read_control(record).type, read_control(record).coordinator_epoch) == (kind, 6)


def test_an_unknown_control_type_stays_a_number() -> None:
    control = read_control(Record(0, 0, bytes.fromhex("00000063"), b"?"))

    assert (control.type, control.value) == (99, b"?")
    assert not isinstance(control.type, ControlType)


def test_types_5_and_6_are_share_partition_state_in_revision_r2_only() -> None:
    data = write_share_control(ShareControlType.SHARE_DELTA, b"state", timestamp=1000, base_offset=131)

    (batch,) = read_batches(data)
    (record,) = batch.records()
    assert (batch.is_control, batch.is_transactional, record.offset, record.timestamp) == (True, False, 131, 1000)
    assert read_control(record, edition="kip932-r2").type is ShareControlType.SHARE_DELTA
    assert read_control(record, edition="kip932-r2").value == b"\0\0state"
    assert read_control(record).type is ControlType.KRAFT_VOTERS
    assert read_control(record, edition="kip932-r3").type is ControlType.KRAFT_VOTERS


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (None, b"", CorruptRecords),
        (b"\0\0\0", b"", Truncated),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\0", CorruptRecords),
        (b"\0\0\0\1", None, CorruptRecords),
        (b"\0\0\0\1", b"\0\0\0\0\0", Truncated),
    ],
)
def test_an_invalid_control_record_is_rejected(key: bytes | None, value: bytes | None, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_control(Record(0, 0, key, value))
