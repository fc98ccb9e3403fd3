"""The index of a series of captures: chosen flows of several captures, indexed as if they were one capture.

It is built from the packets in the indexes of the files. File offsets and packet numbers of each file follow those of
the file before; rows show the packet numbers of their own file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from kwire.capture.index.arrays import Ints
from kwire.capture.index.build import renumber_client_ids, write_flows
from kwire.capture.index.column_schema import PacketColumns
from kwire.capture.index.columns import Columns
from kwire.capture.index.flows.flow_builder import FlowBuilder
from kwire.capture.index.flows.frame_columns import FileWindow
from kwire.capture.index.index_writer import IndexWriter
from kwire.capture.index.model import FlowKey, Index
from kwire.capture.index.parallel.ranges import headers_from_columns
from kwire.capture.index.scan.packet_headers import endpoint_words
from kwire.capture.index.sparse import read_sparse
from kwire.capture.index.stored_payload import STORED_BASE, Extent, ReadableFile
from kwire.capture.index.streams.flow_closing import PacketTimes
from kwire.capture.tls.key_log import KeyLog

# Space between the files: readers read up to this far after the end of a file.
_PADDING_SIZE = 1024
# The space for the stored payload of each file, more than any may have.
_STORED_SIZE_MAX = 1 << 40
# Open files at a time; a series may have more files than a process may open.
_OPEN_MAX = 16


class SeriesIndex(Index):
    """The index of chosen flows of several captures, in the order of their times. The constructor builds it."""

    def __init__(self, indexes: Sequence[Index], flows: Collection[FlowKey] | None = None) -> None:
        """Args: flows: None for all."""
        self.indexes = list(indexes)
        self._flows = flows
        self._firsts = np.cumsum([0, *(index.packet_count for index in indexes)], dtype=np.int64)
        self._bases = np.cumsum([0, *(index.size + _PADDING_SIZE for index in indexes)], dtype=np.int64)
        self._numbers: list[Ints] = []
        self._parts: list[tuple[int, int]] = []
        super().__init__(b"", self._build_columns())

    @property
    def file(self) -> str:
        """The name of the first file."""
        return self.indexes[0].file

    @cached_property
    def file_starts(self) -> list[tuple[int, str]]:
        """The first time and the name of each file."""
        return [(index.first_ts, index.file) for index in self.indexes]

    @property
    def file_indexes(self) -> list[tuple[int, Index]]:
        """The index of each file, with the number of packets in the files before it."""
        return list(zip(self._firsts[:-1].tolist(), self.indexes, strict=True))

    def key_log(self, more: str = "") -> KeyLog:
        """The TLS secrets of all files, and those of more key log lines."""
        key_log = self.indexes[0].key_log(more)
        for index in self.indexes[1:]:
            key_log.add_lines(index.secrets)
        return key_log

    def open_file(self) -> _SeriesFiles:
        """Open all files as one."""
        return _SeriesFiles(self.indexes, self._bases[:-1].tolist())

    def file_packet_numbers(self, numbers: Ints) -> Ints:
        """Convert packet numbers of the series to those of the file that contains the packet; -1 stays."""
        file_numbers = np.searchsorted(self._firsts[:-1], numbers, "left") - 1
        return numbers - self._firsts[np.maximum(file_numbers, 0)]

    def read_packets(self, part: int) -> PacketColumns:
        """The packets of the chosen flows in one span."""
        place, own_part = self._parts[part]
        packets, numbers = self.indexes[place].read_packets(own_part), self._numbers[place]
        rows = np.nonzero(numbers[packets.pair] >= 0)[0]
        packets = PacketColumns(*(column[rows].astype(np.int64) for column in packets))
        shifts = np.where(packets.at < STORED_BASE, self._bases[place], place * _STORED_SIZE_MAX)
        return packets._replace(
            number=packets.number + self._firsts[place], at=packets.at + shifts, pair=numbers[packets.pair]
        )

    def packet_times(self, part: int) -> PacketTimes:
        """Number and time of all packets of a span, also of flows that were not chosen."""
        place, own_part = self._parts[part]
        number, ts = self.indexes[place].packet_times(own_part)
        return PacketTimes(number + self._firsts[place], ts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the indexes of the files; the series is built again."""
        return SeriesIndex, (self.indexes, self._flows)

    def _build_columns(self) -> Columns:
        columns = Columns()
        writer = IndexWriter(columns)
        numbers: dict[FlowKey, int] = {}
        keys: list[FlowKey] = []
        files = self.open_file()
        try:
            builder = FlowBuilder(files.read, keys.__getitem__)
            for part, extent in self._find_parts(numbers, writer.stored.extents):
                keys += islice(numbers, len(keys), None)
                packets = self.read_packets(part)
                headers = headers_from_columns(packets._asdict())
                ranges = headers.at, headers.at + headers.captured
                window = FileWindow(extent[0], read_sparse(files.read, *extent, ranges))
                result = builder.add_span(headers, packets.pair, window, self.packet_times(part))
                exchanges = renumber_client_ids(result.exchanges, writer.clients, builder.client_ids)
                writer.write_span(extent, {"number": headers.number}, exchanges, result.fragments)
            words = [endpoint_words(low, high) for low, high in keys]
            write_flows(writer, builder, np.array(words, dtype=np.uint64).reshape(-1, 5))
        finally:
            files.close()
        writer.write_metadata(
            {
                "size": int(self._bases[-1]),
                "mtime_ns": 0,
                "packet_count": int(self._firsts[-1]),
                "first_ts": min((index.first_ts for index in self.indexes), default=0),
                "last_ts": max((index.last_ts for index in self.indexes), default=0),
                "secrets_at": [],
                "may_have_secrets": False,
                "issues": [],
            }
        )
        return columns

    def _find_parts(self, numbers: dict[FlowKey, int], stored: list[Extent]) -> Iterator[tuple[int, Extent]]:
        """The spans with packets of the chosen flows, each with its extent; `stored` receives that of stored payload.

        Args: numbers: receives the numbers of endpoints.
        """
        for place, index in enumerate(self.indexes):
            pairs = np.full(len(index.keys), -1, dtype=np.int64)
            for number, key in enumerate(index.keys):
                if self._flows is None or key in self._flows:
                    pairs[number] = numbers.setdefault(key, len(numbers))
            self._numbers.append(pairs)
            for part, (begin, size) in enumerate(index.spans if (pairs >= 0).any() else ()):
                if (pairs[index.read_packets(part).pair] >= 0).any():
                    at, stored_size = index.stored[part]
                    stored.append((at + place * _STORED_SIZE_MAX, stored_size))
                    self._parts.append((place, part))
                    yield len(self._parts) - 1, (int(self._bases[place]) + begin, size)


class _SeriesFiles:
    """The files of a series, read by the offsets of the series."""

    def __init__(self, indexes: Sequence[Index], bases: list[int]) -> None:
        self._indexes = indexes
        self._bases = bases
        self._open: dict[int, ReadableFile] = {}

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes from a position; fewer at the end of its file."""
        is_stored = at >= STORED_BASE
        place = (at - STORED_BASE) // _STORED_SIZE_MAX if is_stored else bisect_right(self._bases, at) - 1
        file = self._open.get(place)
        if file is None:
            if len(self._open) == _OPEN_MAX:
                self._open.pop(next(iter(self._open))).close()
            file = self._open[place] = self._indexes[place].open_file()
        return file.read(at - (place * _STORED_SIZE_MAX if is_stored else self._bases[place]), size)

    def close(self) -> None:
        """Close the files."""
        for file in self._open.values():
            file.close()
        self._open.clear()
