"""An index of which some connections are built again for the options of a reader.

Indexes store neither secrets nor plaintext, and know nothing of ports and sizes that a user names. So the connections
that depend on these are built again, from their packets, when a reader is opened. What is found is merged with the
index part by part; plaintext lies behind the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from kwire.capture.index.arrays import Ints
from kwire.capture.index.build import renumber_client_ids, write_flows
from kwire.capture.index.column_schema import read_exchanges
from kwire.capture.index.columns import Column, Columns
from kwire.capture.index.flows.flow_builder import FlowBuilder
from kwire.capture.index.flows.frame_columns import FileWindow, FrameColumns, sort_gaps
from kwire.capture.index.flows.message_columns import ExchangeColumns, concatenate_exchanges, renumber_flows
from kwire.capture.index.flows.other_connections import sort_connections
from kwire.capture.index.flows.tls_streams import TlsStreams
from kwire.capture.index.index_writer import IndexWriter
from kwire.capture.index.model import FlowInfo, FlowKey, Index
from kwire.capture.index.parallel.ranges import headers_from_columns
from kwire.capture.index.sparse import read_sparse
from kwire.capture.index.stored_payload import CaptureBytes, Extent, ReadableFile, StoredPayload
from kwire.capture.kafka.client_detection import (
    DEFAULT_SETTINGS,
    DetectionSettings,
    find_client_by_port,
    is_excluded,
    may_decrypt,
)
from kwire.capture.options import Options
from kwire.capture.tls.key_log import KeyLog

# The position of the first byte of the plaintext: behind every file, and what is stored of it.
_PLAINTEXT_BASE = 1 << 61


def rebuild_flows(index: Index, flows: Collection[FlowKey] | None, options: Options) -> Index:
    """The index with the exchanges that a reader with these options finds; the same index if it has them.

    Args: flows: those to read; None for all.
    """

    def number_pairs(found: Iterable[FlowInfo]) -> Ints:
        read = [flow for flow in found if (flows is None or flow.key in flows) and not is_excluded(flow.key, options)]
        return np.array(sorted({flow.pair for flow in read}), dtype=np.int64)

    settings = DetectionSettings(options.ports, options.frame_size_max)
    if settings != DEFAULT_SETTINGS:
        pairs = number_pairs(_find_dependent_flows(index, settings))
        index = RebuiltIndex(index, pairs, settings) if len(pairs) else index
    pairs = number_pairs(index.flows[row.flow] for row in index.others if row.kind == "tls")
    if not len(pairs):
        return index
    keys = index.key_log(options.tls_keylog)
    return RebuiltIndex(index, pairs, settings, keys) if may_decrypt(keys) else index


def _find_dependent_flows(index: Index, settings: DetectionSettings) -> Iterator[FlowInfo]:
    """The flows that may be something else with these settings."""
    others, openers = {row.flow for row in index.others}, index.openers.tolist()
    for number, flow in enumerate(index.flows):
        # A port of a broker determines the client, even against the SYN, and may show that a connection is Kafka.
        client = find_client_by_port(flow.key, settings.ports)
        is_other_client = client is not None and client != openers[number]
        if number in others or is_other_client or settings.size_max != DEFAULT_SETTINGS.size_max:
            yield flow


class RebuiltIndex(Index):
    """An index with some connections built again. The constructor builds them."""

    is_built_for_reader = True

    def __init__(self, index: Index, pairs: Ints, settings: DetectionSettings, keys: KeyLog | None = None) -> None:
        """Args: pairs: the numbers of endpoints of which a connection depends on the settings, or with `keys`, secrets
        of TLS, of which one speaks TLS: only these are built again; ascending.
        """
        self._index = index
        self._pairs = pairs
        self._own = Columns()
        self._plaintext = StoredPayload(Columns(), [], _PLAINTEXT_BASE)
        tls = self._build_columns(settings, keys)
        # The same packets have the same connections.
        stored = _connection_keys(index.columns)
        order = np.argsort(stored)
        self._flows = order[np.searchsorted(stored[order], _connection_keys(self._own, pairs))]
        self._built = np.arange(len(self._flows)) if tls is None else np.array(sorted(tls.tls_flows), dtype=np.int64)
        self._replaced = self._flows[self._built]
        self.tls_flows = frozenset(() if tls is None else self._replaced.tolist())
        super().__init__(index.source, self._merge_columns())

    @property
    def file(self) -> str:
        """The value of the column `file` of its rows."""
        return self._index.file

    @property
    def file_starts(self) -> list[tuple[int, str]]:
        """For a series of files, the first time and the name of each."""
        return self._index.file_starts

    @property
    def file_indexes(self) -> list[tuple[int, Index]]:
        """The index of each file, with the number of packets in the files before it."""
        return self._index.file_indexes

    def key_log(self, more: str = "") -> KeyLog:
        """The TLS secrets of the file, and those of more key log lines."""
        return self._index.key_log(more)

    def open_file(self) -> ReadableFile:
        """Open the capture, for reading by position."""
        return CaptureBytes(self._index.open_file(), self._plaintext)

    def file_packet_numbers(self, numbers: Ints) -> Ints:
        """Convert packet numbers of the index to packet numbers of the file that contains the packet."""
        return self._index.file_packet_numbers(numbers)

    def extents(self, part: int) -> list[Extent]:
        """The parts of the capture, and of the plaintext, that a span consists of."""
        return [*self._index.extents(part), *(each for each in self._plaintext.extents[part : part + 1] if each[1])]

    def read_exchanges(self, part: int) -> ExchangeColumns:
        """The exchanges that a span completes, in the order of completion."""
        (stored_shifts, own_shifts), client_count = self._shifts, len(self._index.client_ids)
        stored = self._index.read_exchanges(part)
        stored = stored.select(np.nonzero(~np.isin(stored.flow, self._replaced))[0])
        stored = _renumber_fragments(stored, *stored_shifts)
        own = _renumber_fragments(read_exchanges(self._own, part), *own_shifts)
        if not len(own):
            return stored
        client_id = own.request.client_id
        request = own.request._replace(client_id=np.where(client_id < 0, client_id, client_id + client_count))
        own = renumber_flows(ExchangeColumns(request, own.response, own.completed_by), self._flows)
        merged = concatenate_exchanges([stored, own])
        # At the end of the capture connections are closed in the order in which they began.
        order = np.argsort(merged.flow if part < 0 else merged.completed_by, kind="stable")
        return merged.select(order)

    def __reduce__(self) -> tuple[Any, ...]:
        """Raises: TypeError: plaintext stays in the process that decrypted it."""
        raise TypeError("an index for the options of a reader cannot be stored")

    def _build_columns(self, settings: DetectionSettings, keys: KeyLog | None) -> TlsStreams | None:
        """Build the connections of the endpoints from their packets."""
        index, writer, pairs = self._index, IndexWriter(self._own), self._pairs
        own_pairs = np.full(len(index.keys), -1, dtype=np.int64)
        own_pairs[pairs] = np.arange(len(pairs))
        file = index.open_file()
        try:
            plaintext = self._plaintext
            read = CaptureBytes(file, plaintext).read
            clear = keys is None
            builder = FlowBuilder(read, lambda pair: index.keys[pairs[pair]], settings, secrets=keys, reads_clear=clear)
            for part, extent in enumerate(index.spans):
                packets = index.read_packets(part)
                rows = np.nonzero(own_pairs[packets.pair] >= 0)[0]
                headers = headers_from_columns(packets._asdict(), rows)
                ranges = headers.at, headers.at + headers.captured
                window = FileWindow(extent[0], read_sparse(file.read, *extent, ranges))
                times, at = index.packet_times(part), plaintext.end
                result = builder.add_span(headers, own_pairs[packets.pair[rows]], window, times, plain_at=at)
                plaintext.add_span(result.plaintext)
                exchanges = renumber_client_ids(result.exchanges, writer.clients, builder.client_ids)
                writer.write_span(extent, {"number": headers.number}, exchanges, result.fragments)
            words = index.columns["pair.words"].reshape(-1, 5)[pairs]
            plaintext.add_span(write_flows(writer, builder, words, plain_at=plaintext.end))
        finally:
            file.close()
        writer.write_metadata({})
        return builder.tls

    def _merge_columns(self) -> Columns:
        """The columns of the index, with those that differ replaced, and its metadata."""
        index, own, merged = self._index, self._own, _MergedColumns(self._index.columns)
        opener = np.array(index.columns["flow.opener"])
        opener[self._replaced] = own["flow.opener"][self._built]
        merged.add_column("flow.opener", opener)
        parts = len(index.spans) + 1
        firsts = [columns["fragments.first"] for columns in (index.columns, own)]
        merged.add_column("fragments.first", sum(firsts[1:], firsts[0]))
        for part in range(parts):
            for name in ("at", "size"):
                columns = [each[f"{part}.fragments.{name}"] for each in (index.columns, own)]
                merged.add_column(f"{part}.fragments.{name}", np.concatenate(columns))
        # In each part the fragments of the index come first.
        last = int(firsts[0][-1]) + len(index.columns[f"{parts - 1}.fragments.at"])
        self._shifts = (firsts[0], firsts[1]), (firsts[1], np.append(firsts[0][1:], last))
        found = own.metadata
        gaps = [gap._replace(flow=int(self._flows[gap.flow])) for gap in found["gaps"]]
        others = [each._replace(flow=int(self._flows[each.flow])) for each in found["others"]]
        replaced = frozenset(self._replaced.tolist())
        left = [each for each in index.others if each.flow not in replaced]
        left_gaps = [each for each in index.gaps if each.flow not in replaced]
        merged.metadata = {
            **index.columns.metadata,
            "client_ids": [*index.client_ids, *found["client_ids"]],
            "gaps": sort_gaps([*left_gaps, *gaps]),
            "others": sort_connections([*left, *others]),
        }
        return merged


def _connection_keys(columns: Columns, pairs: Ints | None = None) -> Ints:
    """The endpoints and the epoch of each connection, as one number. Args: pairs: of the index, by those of columns."""
    pair = columns["flow.pair"] if pairs is None else pairs[columns["flow.pair"]]
    keys: Ints = pair << 32 | columns["flow.epoch"]
    return keys


class _MergedColumns(Columns):
    """The columns of an index, of which some are replaced."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self._columns = columns

    def __getitem__(self, name: str) -> Column:
        return super().__getitem__(name) if name in self._loaded or name in self._directory else self._columns[name]


def _renumber_fragments(exchanges: ExchangeColumns, firsts: Ints, shifts: Ints) -> ExchangeColumns:
    """The exchanges with other fragment numbers. Args: firsts: by part, the first one; shifts: added to those of it."""
    if not shifts.any():
        return exchanges

    def renumber(frames: FrameColumns) -> FrameColumns:
        rows = np.nonzero((frames.at < 0) & (frames.fragment_count > 0))[0]
        at = frames.at.copy()
        at[rows] -= shifts[np.searchsorted(firsts, -1 - at[rows], "right") - 1]
        return frames._replace(at=at)

    request, response, completed_by = exchanges
    request = request._replace(frame=renumber(request.frame))
    return ExchangeColumns(request, response._replace(frame=renumber(response.frame)), completed_by)
