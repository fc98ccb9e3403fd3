"""Packets as record batches that go through a shuffle, which groups them by the two hosts that exchange them.

A row is a packet, with its headers and payload, or an issue of a file, which belongs to no hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.index.arrays import Ints, group_starts
from kwire.capture.index.flows.endpoint_pairs import EndpointPairs
from kwire.capture.index.scan.packet_headers import PacketHeaders, endpoints_of_words
from kwire.capture.index.scan.stream_headers import HeaderBatch, StreamHeaders
from kwire.capture.model import CaptureIssue
from kwire.capture.options import Options
from kwire.capture.tls.key_log import KeyLog

# Columns of headers that are columns of the same name.
_HEADER_COLUMNS = ("ts", "link", "side", "seq", "ack", "flags", "window", "missing")
# The fields of an issue; its packet and time are those of the row.
_ISSUE_COLUMNS = ("kind", "detail", "packets")
_COLUMNS = {
    pa.string(): ("file", "kind", "detail"),
    pa.binary(): ("hosts", "ends", "payload"),
    pa.int64(): ("first_ts", "packet", "packets", *_HEADER_COLUMNS),
}
PACKET_SCHEMA = pa.schema([(name, kind) for kind, names in _COLUMNS.items() for name in names])
# The order of packets in a series of files.
_ORDER = [("first_ts", "ascending"), ("file", "ascending"), ("packet", "ascending")]
# Packets of one record batch on the way to the shuffle, and of one part that is read behind it.
_SENT_COUNT, _PART_COUNT = 2_000, 128_000


def packet_batches(path: str, content: bytes, options: Options) -> Iterator[pa.RecordBatch]:
    """The packets and issues of a file.

    Raises: CaptureError if it is no capture.
    """
    headers, first_ts = StreamHeaders(), None
    packets = read_packets(content, KeyLog(options.tls_keylog), options.unpacked_size_max)
    for batch in headers.read_batches(packets):
        if len(batch.headers.number):
            first_ts = int(batch.headers.ts[0]) if first_ts is None else first_ts
            whole = _packet_rows(batch, path, first_ts)
            yield from (whole.slice(at, _SENT_COUNT) for at in range(0, len(whole), _SENT_COUNT))
    issues = [issue for _, issue in headers.end_file()]
    # An issue may be older than the first packet; its row belongs to this file all the same.
    begins = [issue.ts if first_ts is None else min(first_ts, issue.ts) for issue in issues]
    rows = [
        {"file": path, "first_ts": begin, "hosts": b"", **issue._asdict()}
        for begin, issue in zip(begins, issues, strict=True)
    ]
    yield pa.RecordBatch.from_pylist(rows, PACKET_SCHEMA)


def sort_packets(group: pa.Table) -> tuple[list[tuple[int, str]], pa.Table]:
    """The files of these rows, with the times of their first packets; and the rows, in order."""
    ordered = group.sort_by(_ORDER)
    files = ordered.group_by(["first_ts", "file"], use_threads=False).aggregate([]).to_pylist()
    return [(file["first_ts"], file["file"]) for file in files], ordered


def issues_of_rows(ordered: pa.Table) -> list[CaptureIssue] | None:
    """The issues that these rows are; None for packets. Args: ordered: as `sort_packets` returns them."""
    if ordered["kind"].null_count:
        return None
    return [CaptureIssue(**row) for row in ordered.select(CaptureIssue._fields).to_pylist()]


def header_batches(ordered: pa.Table) -> Iterator[HeaderBatch]:
    """The packets of rows. Args: ordered: as `sort_packets` returns them."""
    packet, file = _to_ints(ordered["packet"]), _to_ints(ordered["file"].dictionary_encode().combine_chunks().indices)
    # The numbers continue from file to file.
    is_first = group_starts(file)
    before = np.append(0, np.cumsum(packet[np.append(is_first[1:], True)]))
    numbers = packet + before[np.cumsum(is_first) - 1]
    for first in range(0, len(numbers), _PART_COUNT):
        stop = first + _PART_COUNT
        rows = ordered.slice(first, _PART_COUNT).combine_chunks()
        yield _header_batch(rows, numbers[first:stop], packet[first:stop])


def _packet_rows(batch: HeaderBatch, path: str, first_ts: int) -> pa.RecordBatch:
    headers, data = batch.headers, batch.data
    count, (hosts, ends) = len(headers.number), _endpoint_columns(headers.ends)
    positions = zip(headers.at.tolist(), (headers.at + headers.captured).tolist(), strict=True)
    packets = batch.in_files[np.searchsorted(batch.numbers, headers.number)]
    columns: dict[str, Any] = {
        "file": pa.array([path] * count),
        "first_ts": np.full(count, first_ts),
        "hosts": hosts,
        "ends": ends,
        "packet": packets,
        "payload": pa.array([data[begin:stop] for begin, stop in positions], type=pa.binary()),
        **{name: getattr(headers, name) for name in _HEADER_COLUMNS},
    }
    missing = {name: pa.nulls(count, PACKET_SCHEMA.field(name).type) for name in _ISSUE_COLUMNS}
    whole = {**columns, **missing}
    return pa.RecordBatch.from_arrays(
        [pa.array(whole[name], type=PACKET_SCHEMA.field(name).type) for name in PACKET_SCHEMA.names],
        schema=PACKET_SCHEMA,
    )


def _endpoint_columns(ends: npt.NDArray[np.uint64]) -> tuple[pa.Array, pa.Array]:
    """The columns `hosts` and `ends` of packets. Args: ends: as in `PacketHeaders`."""
    pairs = EndpointPairs()
    number = pa.array(pairs.number_pairs(ends))
    hosts = [b"".join(host for host, _ in endpoints_of_words(words)) for words in pairs.words]
    words = [row.tobytes() for row in pairs.endpoint_table()]
    return pa.array(hosts, type=pa.binary()).take(number), pa.array(words, type=pa.binary()).take(number)


def _header_batch(rows: pa.Table, numbers: Ints, in_files: Ints) -> HeaderBatch:
    data, captured = _join_bytes(rows["payload"])
    words, _ = _join_bytes(rows["ends"])
    columns = {name: _to_ints(rows[name]) for name in _HEADER_COLUMNS}
    ends = np.frombuffer(words, dtype=np.uint64).reshape(-1, 5)
    headers = PacketHeaders(number=numbers, ends=ends, at=np.cumsum(captured) - captured, captured=captured, **columns)
    return HeaderBatch(headers, data, numbers, in_files)


def _join_bytes(column: pa.ChunkedArray) -> tuple[bytes, Ints]:
    """All bytes of a binary column, and the size of each value."""
    chunks: Sequence[pa.Array] = [chunk.cast(pa.large_binary()) for chunk in column.chunks]
    parts, sizes = list[bytes](), [np.zeros(0, dtype=np.int64)]
    for chunk in chunks:
        _, offset_buffer, data = chunk.buffers()
        offsets = np.frombuffer(offset_buffer, dtype=np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
        sizes.append(np.diff(offsets))
        if data is not None:
            parts.append(data[int(offsets[0]) : int(offsets[-1])].to_pybytes())
    return b"".join(parts), np.concatenate(sizes)


def _to_ints(column: pa.Array | pa.ChunkedArray) -> Ints:
    values: Ints = column.to_numpy().astype(np.int64)
    return values
