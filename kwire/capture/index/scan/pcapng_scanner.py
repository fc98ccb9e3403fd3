"""Scan the blocks of a pcapng file: valid enhanced packets together, all others one by one as the streaming reader."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kwire.capture.files import pcapng, pcapng_blocks
from kwire.capture.files.source import Reader
from kwire.capture.index.arrays import Bools, Ints, concatenate_rows
from kwire.capture.index.scan.packet_headers import gather_bytes
from kwire.capture.index.scan.resync import guess_pcapng_position
from kwire.capture.index.scan.spans import Chunk, RecordPosition, RecordScanner, ScanState, Span
from kwire.capture.model import Packet

_U32_PAIR = {"<": struct.Struct("<II"), ">": struct.Struct(">II")}
_SECTION = 0x0A0D0D0A
# Interfaces are almost always described in the first bytes of a file.
_GUESS_SIZE = 256 * 1024


class _BlockRun(NamedTuple):
    """Blocks of one section.

    offsets: of enhanced packets with valid sizes. interface_counts: how many interfaces were described before one of
    these, by its index, where the number changes. others: offset of each other block that is parsed one by one, and how
    many interfaces were described before it.
    """

    order: str
    interfaces: list[pcapng_blocks.Interface]
    offsets: list[int]
    interface_counts: list[tuple[int, int]]
    others: list[tuple[int, int]]


class _PacketRun(NamedTuple):
    """A run with the offsets of its enhanced packets as a column, and the words of their headers."""

    run: _BlockRun
    offsets: Ints
    headers: Ints


class _PacketRows(NamedTuple):
    """The columns of packets, as in `Span`."""

    number: Ints
    ts: Ints
    at: Ints
    captured: Ints
    size: Ints
    link: Ints


class PcapngScanner(RecordScanner[list[_PacketRun]]):
    """Scans the blocks of a pcapng file."""

    may_have_secrets = True
    first = RecordPosition(0)

    def make_span(self, chunk: Chunk[list[_PacketRun]], state: ScanState) -> Span | None:
        """The packets of blocks that were found; None if there are none."""
        base, data, runs, end = chunk
        rows = concatenate_rows(*(_read_run(data, run, state) for run in runs))
        return Span(base, data, min(end, len(data)), *rows) if len(rows.at) else None

    def guess_position(self, start: int, stop: int) -> RecordPosition | None:
        """Guess the position of the first packet; byte order and interfaces are those at the beginning of the file."""
        state = ScanState(self.first)
        self.find_records(self._file.read(0, _GUESS_SIZE), _GUESS_SIZE, state)
        return guess_pcapng_position(self._file, state.position, start, stop)

    def read_rest(self, reader: Reader, state: ScanState) -> Iterator[object]:
        """What the streaming reader yields behind the complete records."""
        parser = pcapng.BlockParser()
        parser.number, parser.ts = state.packet_count, state.last_ts
        _, parser.order, interfaces, _ = state.position
        parser.interfaces = list(interfaces)
        return pcapng.read_blocks(reader, parser)

    def find_records(self, data: bytes, limit: int, state: ScanState) -> tuple[list[_PacketRun], int]:
        """The blocks that begin before the limit, and the offset of the next one."""
        chunk = _Chunk(state.position, data, self._file.size)
        chunk.read_blocks(limit)
        runs = [_read_headers(data, run) for run in chunk.runs]
        damaged_at = next((int(at) for run in runs for at in _find_damage(data, run)[:1]), None)
        if damaged_at is not None:
            # What follows was not to be read.
            chunk = _Chunk(state.position, data, self._file.size)
            chunk.read_blocks(damaged_at)
            chunk.is_damaged = True
            runs = [_read_headers(data, run) for run in chunk.runs]
        state.is_ended = chunk.is_damaged
        state.position = chunk.position
        state.key_logs += chunk.key_logs
        return runs, chunk.at


class _Chunk:
    """The blocks of one read of the file.

    at: where the next block begins. is_damaged: whether it cannot be read.
    """

    def __init__(self, position: RecordPosition, data: bytes, file_size: int) -> None:
        """`data` begins at the position."""
        self._data = data
        self._base, self._order, interfaces, _ = position
        self._interfaces = list(interfaces)
        self._file_size = file_size
        self.at = 0
        self.is_damaged = False
        self.key_logs: list[tuple[int, int]] = []
        self.runs = [self._new_run()]

    @property
    def position(self) -> RecordPosition:
        """The position of the next block."""
        return RecordPosition(self._base + self.at, self._order, tuple(self._interfaces))

    def _new_run(self) -> _BlockRun:
        return _BlockRun(self._order, self._interfaces, [], [(0, len(self._interfaces))], [])

    def read_blocks(self, limit: int) -> None:
        """Read the blocks that begin before the limit, up to a damaged one or one that is not complete in the data."""
        data, at, end = self._data, 0, len(self._data)
        size_max, enhanced = pcapng.BLOCK_SIZE_MAX, pcapng.PACKET
        offsets, unpack = self.runs[0].offsets, _U32_PAIR[self._order].unpack_from
        while at < limit and at + 12 <= end:
            kind, size = unpack(data, at)
            if kind == enhanced and 32 <= size <= size_max and not size & 3 and at + size <= end:
                offsets.append(at)
                at += size
                continue
            if kind == _SECTION:
                if at + 16 > end:
                    break
                self._order = ">" if data[at + 8 : at + 12] == b"\x1a\x2b\x3c\x4d" else "<"
                unpack = _U32_PAIR[self._order].unpack_from
                size = unpack(data, at)[1]
            if self._base + at + size > self._file_size or not self._is_valid(kind, at, size):
                self.is_damaged = True
                break
            if at + size > end and (kind in pcapng.READ or kind == _SECTION):
                break
            if kind in pcapng.READ:
                if not self._read_block(kind, at, size):
                    self.is_damaged = True
                    break
            elif kind == _SECTION:
                self._interfaces = []
                if not (offsets or self.runs[-1].others):
                    self.runs.pop()
                self.runs.append(self._new_run())
                offsets = self.runs[-1].offsets
            # Long blocks of other kinds are skipped, wherever they end.
            at += size
        self.at = at

    def _is_valid(self, kind: int, at: int, size: int) -> bool:
        if kind == _SECTION:
            return self._data[at + 8 : at + 12] in {b"\x1a\x2b\x3c\x4d", b"\x4d\x3c\x2b\x1a"} and size >= 28
        return size >= 12 and not size & 3 and (kind not in pcapng.READ or size <= pcapng.BLOCK_SIZE_MAX)

    def _read_block(self, kind: int, at: int, size: int) -> bool:
        """Read a block other than a valid enhanced packet; False if it is damaged."""
        data, run = self._data, self.runs[-1]
        body = data[at + 8 : at + size - 4]
        if data[at + size - 4 : at + size] != data[at + 4 : at + 8]:
            return False
        try:
            if kind == pcapng.INTERFACE:
                interface = pcapng_blocks.parse_interface(body, self._order)
                if len(self._interfaces) == pcapng.INTERFACES_MAX:
                    return False
                self._interfaces.append(interface)
                run.interface_counts.append((len(run.offsets), len(self._interfaces)))
                return True
            if kind == pcapng.SECRETS:
                label, text_size = struct.unpack_from(self._order + "II", body)
                if label == pcapng.TLS_KEY_LOG:
                    self.key_logs.append((self._base + at + 16, min(text_size, len(body) - 8)))
                return True
        except struct.error:
            # The parser reports that it is too short.
            pass
        run.others.append((at, len(self._interfaces)))
        return True


def _read_headers(data: bytes, run: _BlockRun) -> _PacketRun:
    offsets = np.array(run.offsets, dtype=np.int64)
    headers = gather_bytes(data, offsets, 28).view(np.dtype(run.order + "u4")).astype(np.int64)
    return _PacketRun(run, offsets, headers)


def _find_damage(data: bytes, packets: _PacketRun) -> Ints:
    """The offsets of the packets whose two lengths differ."""
    run, offsets, headers = packets
    sizes = headers[:, 1]
    ends = gather_bytes(data, offsets + sizes - 4, 4).view(np.dtype(run.order + "u4"))[:, 0]
    is_damaged: Bools = ends != sizes
    return offsets[is_damaged]


def _read_run(data: bytes, packets: _PacketRun, state: ScanState) -> _PacketRows:
    """The packets of a run. The state is advanced, and receives the issues."""
    run, offsets, headers = packets
    block_size, interface, captured, size = headers[:, 1], headers[:, 2], headers[:, 5], headers[:, 6]
    places, counts = np.array(run.interface_counts, dtype=np.int64).T
    interface_counts = np.repeat(counts, np.diff(np.append(places, len(offsets))))
    is_good = (interface < interface_counts) & (captured <= block_size - 32)
    others = run.others
    if not is_good.all():
        bad = np.nonzero(~is_good)[0]
        others = sorted([*others, *zip(offsets[bad].tolist(), interface_counts[bad].tolist(), strict=True)])
        offsets, headers, interface, captured, size = (
            column[is_good] for column in (offsets, headers, interface, captured, size)
        )
    links = np.array([description.link for description in run.interfaces], dtype=np.int64)[interface]
    stamps = _timestamps(headers[:, 3], headers[:, 4], interface, run.interfaces)
    first = state.packet_count + 1
    numbers = np.arange(first, first + len(offsets), dtype=np.int64)
    rows = _PacketRows(numbers, stamps, offsets + 28, captured, np.maximum(size, captured), links)
    if not others:
        if len(offsets):
            state.packet_count, state.last_ts = int(numbers[-1]), int(stamps[-1])
        return rows
    return _add_others(data, run._replace(others=others), rows, state)


def _add_others(data: bytes, run: _BlockRun, rows: _PacketRows, state: ScanState) -> _PacketRows:
    """The rows of enhanced packets, and those of the other blocks, which are parsed one by one in their order."""
    parser = pcapng.BlockParser()
    parser.order, parser.number, parser.ts = run.order, state.before + state.packet_count, state.last_ts
    found: list[tuple[int, ...]] = []
    places = np.searchsorted(rows.at, [at for at, _ in run.others]).tolist()
    counts = np.zeros(len(rows.at) + 1, dtype=np.int64)
    done = 0
    has_time = state.packet_count > 0
    for (at, interface_count), place in zip(run.others, places, strict=True):
        if place > done:
            parser.number, parser.ts, done, has_time = (
                parser.number + place - done,
                int(rows.ts[place - 1]),
                place,
                True,
            )
        parser.interfaces += run.interfaces[len(parser.interfaces) : interface_count]
        kind, size = _U32_PAIR[run.order].unpack_from(data, at)
        before = parser.number
        item = parser.parse_block(kind, data[at + 8 : at + size - 4])
        counts[place] += parser.number - before
        number = parser.number - state.before
        is_simple = kind == pcapng.PACKET_SIMPLE
        if isinstance(item, Packet):
            begin = at + (12 if is_simple else 28)
            found.append((number, item.ts, begin, len(item.data), item.size, item.link))
            state.depends_on_before |= is_simple and not has_time
            has_time |= not is_simple
        elif item is not None:
            state.depends_on_before |= item.kind == "file_corrupt"
            state.issues.add(number, item._replace(packet=max(item.packet - state.before, 0)))
    if len(rows.at) > done:
        parser.number, parser.ts = parser.number + len(rows.at) - done, int(rows.ts[-1])
    state.packet_count, state.last_ts = parser.number - state.before, parser.ts
    rows = rows._replace(number=rows.number + np.cumsum(counts)[:-1])
    if not found:
        return rows
    merged = concatenate_rows(rows, _PacketRows(*np.array(found, dtype=np.int64).T))
    order = np.argsort(merged.number)
    return _PacketRows(*(column[order] for column in merged))


def _timestamps(high: Ints, low: Ints, interface: Ints, interfaces: list[pcapng_blocks.Interface]) -> Ints:
    """Nanoseconds from the interfaces' own clocks, exactly as `Interface.to_nanoseconds` computes them."""
    out = np.zeros(len(high), dtype=np.int64)
    for index in np.unique(interface).tolist():
        clock = interfaces[index]
        chosen = np.nonzero(interface == index)[0]
        ticks_high, ticks_low = high[chosen], low[chosen]
        factor, rest = divmod(1_000_000_000, clock.per_second)
        limit = (2**62 // max(factor, 1)) >> 32
        if not rest and abs(clock.offset) < 2**61 and bool((ticks_high < limit).all()):
            out[chosen] = np.maximum(((ticks_high << 32) | ticks_low) * factor + clock.offset, 0)
        else:
            out[chosen] = list(map(clock.to_nanoseconds, ticks_high.tolist(), ticks_low.tolist()))
    return out
