"""Producer ids and epochs in record batches of Produce requests."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, cast

import crc32c
import msgspec

from kwire.errors import WireError
from kwire.records import read_batches
from kwire.records.batch import CRC_START

_CRC_AT = 17
_PRODUCER_AT = 43
_PRODUCER = struct.Struct(">qh")


def map_producer_ids(request: msgspec.Struct, choose: Callable[[int, int], tuple[int, int]]) -> None:
    """Replace id and epoch of the producer in each batch, and its checksum if it was right. Changes the request."""
    for topic in cast("Any", request).topic_data:
        for partition in topic.partition_data:
            if partition.records:
                partition.records = _map_records(bytes(partition.records), choose)


def _map_records(records: bytes, choose: Callable[[int, int], tuple[int, int]]) -> bytes:
    try:
        batches = list(read_batches(records, verify=False))
    except WireError:
        return records  # Damaged on purpose: it is sent as it was.
    changed = bytearray()
    for batch in batches:
        raw = bytearray(batch.raw)
        producer = choose(batch.producer_id, batch.producer_epoch)
        if batch.magic == 2 and batch.producer_id >= 0 and producer != (batch.producer_id, batch.producer_epoch):
            is_valid = batch.crc_is_valid
            _PRODUCER.pack_into(raw, _PRODUCER_AT, *producer)
            if is_valid:
                struct.pack_into(">I", raw, _CRC_AT, crc32c.crc32c(bytes(raw[CRC_START:])))
        changed += raw
    return bytes(changed) + records[len(changed) :]
