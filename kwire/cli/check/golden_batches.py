"""Check of a golden line of record batches: bytes as in a log, and what Kafka's reader returns for them."""

from __future__ import annotations

from collections.abc import Callable

from kwire.cli.check.comparison import Mismatch, check_keys, compare_json, parse_hex, shorten_repr
from kwire.records import Batch, Record, read_batches

_KEYS = ("hex", "batches")


def check_batches(tree: dict[str, object]) -> None:
    """Compare every key of every batch of the line.

    Raises: Mismatch, or the WireError of the reader.
    """
    check_keys(tree, _KEYS, _KEYS)
    expected = tree["batches"]
    if not isinstance(expected, list):
        raise Mismatch(f"batches is not a list: {shorten_repr(expected)}")
    got = list(read_batches(parse_hex(tree["hex"], "hex")))
    if len(got) != len(expected):
        raise Mismatch(f"batches: expected {len(expected)}, got {len(got)}")
    for index, (one, batch) in enumerate(zip(expected, got, strict=True)):
        path = f"batches[{index}] (magic {batch.magic})"
        if not isinstance(one, dict) or not one:
            raise Mismatch(f"{path}: nothing to compare with: {shorten_repr(one)}")
        unknown = sorted(set(one) - set(_FIELDS))
        if unknown:
            raise Mismatch(f"{path}: keys that cannot be compared: {', '.join(unknown)}")
        compare_json(one, {key: _FIELDS[key](batch) for key in one}, path)


def _records(batch: Batch) -> list[object]:
    return [_record(record) for record in batch.records()]


def _record(record: Record) -> dict[str, object]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _hex(record.key),
        "value": _hex(record.value),
        "headers": [[name, _hex(value)] for name, value in record.headers],
    }


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


_FIELDS: dict[str, Callable[[Batch], object]] = {
    "magic": lambda batch: batch.magic,
    "baseOffset": lambda batch: batch.base_offset,
    "lastOffset": lambda batch: batch.last_offset,
    "codec": lambda batch: batch.codec.label,
    "timestampType": lambda batch: batch.timestamp_type.label,
    "maxTimestamp": lambda batch: batch.max_timestamp,
    "producerId": lambda batch: batch.producer_id,
    "producerEpoch": lambda batch: batch.producer_epoch,
    "baseSequence": lambda batch: batch.base_sequence,
    "transactional": lambda batch: batch.is_transactional,
    "control": lambda batch: batch.is_control,
    "partitionLeaderEpoch": lambda batch: batch.partition_leader_epoch,
    "records": _records,
}
