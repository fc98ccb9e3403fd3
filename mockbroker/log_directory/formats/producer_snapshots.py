"""Snapshot files: the producer states of a partition at an offset, so that older segments need not be read again.

Header: version int16, CRC-32C of what follows it uint32, number of entries int32; an entry has 46 bytes. Only the last
batch of a producer is stored. Source: Kafka's ProducerStateManager.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kwire.records import checksum
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.state.storage.producers import BatchMetadata, ProducerState

_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_START = 6
_VERSION = 1
_NONE = -1
_SEQUENCES = 1 << 31


def write_snapshot(states: Sequence[ProducerState]) -> bytes:
    """The file of these states."""
    body = struct.pack(">i", len(states)) + b"".join(map(_write_entry, states))
    return struct.pack(">hI", _VERSION, checksum.crc32c(body)) + body


def read_snapshot(data: bytes, name: str) -> list[ProducerState]:
    """The states, each with its last batch. Raises: DamagedFileError."""
    if len(data) < _HEADER.size:
        raise DamagedFileError(name, len(data), f"{len(data)} bytes; a header has {_HEADER.size}")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise DamagedFileError(name, 0, f"version {version}; expected {_VERSION}")
    if (found := checksum.crc32c(data[_CRC_START:])) != crc:
        raise DamagedFileError(name, 2, f"checksum {crc:#010x}, but that of the entries is {found:#010x}")
    if len(data) - _HEADER.size != count * _ENTRY.size:
        raise DamagedFileError(name, _CRC_START, f"{count} entries in {len(data) - _HEADER.size} bytes")
    return [_read_entry(values) for values in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :])]


def _write_entry(state: ProducerState) -> bytes:
    last = state.batches[-1] if state.batches else None
    return _ENTRY.pack(
        state.producer_id,
        state.epoch,
        state.last_sequence,
        _NONE if last is None else last.last_offset,
        0 if last is None else last.last_offset - last.first_offset,
        state.last_timestamp,
        state.coordinator_epoch,
        _NONE if state.transaction_start is None else state.transaction_start,
    )


def _read_entry(values: tuple[int, ...]) -> ProducerState:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, start = values
    state = ProducerState(producer_id, epoch, coordinator_epoch, timestamp, None if start == _NONE else start)
    if sequence != _NONE:
        # Sequences continue at 0 after the largest one.
        first = (sequence - delta) % _SEQUENCES
        state.batches.append(BatchMetadata(first, sequence, offset - delta, offset, timestamp))
    return state
