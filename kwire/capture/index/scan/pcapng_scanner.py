"""Scan the blocks of a pcapng file: valid enhanced packets here, all other packets with the streaming reader."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kwire.capture.files import pcapng, pcapng_blocks
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.index.arrays import Ints
from kwire.capture.index.scan.files import FileStream, NotIndexed
from kwire.capture.index.scan.header_pass import ISSUES_MAX
from kwire.capture.index.scan.packet_headers import gather_bytes
from kwire.capture.index.scan.resync import guess_pcapng_position
from kwire.capture.index.scan.spans import RecordPosition, RecordScanner, ScanState, Span
from kwire.capture.model import CaptureIssue, Packet
from kwire.capture.tls.key_log import KeyLog

_U32_PAIR = {"<": struct.Struct("<II"), ">": struct.Struct(">II")}
_ENHANCED, _SECTION = 6, 0x0A0D0D0A
# Interfaces are almost always described in the first bytes of a file.
_GUESS_SIZE = 256 * 1024


class _PacketRun(NamedTuple):
    """Enhanced packets of one section; other blocks may lie between them.

    interface_counts: how many interfaces were described before a packet, by index in `offsets`, where it changes.
    """

    order: str
    interfaces: list[pcapng_blocks.Interface]
    offsets: list[int]
    interface_counts: list[tuple[int, int]]


class PcapngScanner(RecordScanner[list[_PacketRun]]):
    """Scans the blocks of a pcapng file up to the first that only the streaming reader can read."""

    may_have_secrets = True
    first = RecordPosition(0)

    def read_spans(self, stop: int, state: ScanState) -> Iterator[Span]:
        """The packets of blocks from the position of `state` up to `stop`, a multiple of the span size."""
        for base, data, runs, end in self._read_chunks(stop, state):
            runs_headers: list[tuple[Ints, ...]] = []
            for run in runs:
                runs_headers.append(_read_packet_headers(data, run))
                if len(runs_headers[-1][0]) < len(run.offsets):
                    state.is_ended = True
                    break
            stamps, at, captured, size, links = (np.concatenate(columns) for columns in zip(*runs_headers, strict=True))
            if not len(at):
                continue
            numbers = state.number_packets(stamps)
            yield Span(base, data, min(end, len(data)), numbers, stamps, at, captured, size, links)

    def guess_position(self, start: int, stop: int) -> RecordPosition | None:
        """Guess the position of the first packet; byte order and interfaces are those at the beginning of the file."""
        state = ScanState(self.first)
        self._find_records(self._file.read(0, _GUESS_SIZE), _GUESS_SIZE, state)
        return guess_pcapng_position(self._file, state.position, start, stop)

    def report_end(self, state: ScanState) -> None:
        """Read an unusual file as a stream once more for its issues.

        Raises: NotIndexed if the stream has more packets.
        """
        check_issue_count(state.issues)
        if not state.is_ended and state.position.at <= self._file.size:
            return
        issues: list[CaptureIssue] = []
        packet_count = 0
        for item in read_packets(FileStream(self._file), KeyLog()):
            if isinstance(item, Packet):
                packet_count += 1
            else:
                issues.append(item)
                check_issue_count(issues)
        if packet_count != state.packet_count:
            raise NotIndexed("the file has blocks that are only read one by one")
        state.issues[:] = issues

    def _find_records(self, data: bytes, limit: int, state: ScanState) -> tuple[list[_PacketRun], int]:
        return _BlockReader(state, data).read_blocks(limit)


class _BlockReader:
    """Reads the blocks of one chunk, which begins at the position of the state."""

    def __init__(self, state: ScanState, data: bytes) -> None:
        self._data = data
        self._state = state
        self._base, self._order, interfaces = state.position
        self._interfaces = list(interfaces)

    def _new_run(self) -> _PacketRun:
        return _PacketRun(self._order, self._interfaces, [], [(0, len(self._interfaces))])

    def read_blocks(self, limit: int) -> tuple[list[_PacketRun], int]:
        """Read the blocks that begin before the limit; return their packets, and the offset of the next block."""
        data, state, runs = self._data, self._state, [self._new_run()]
        at, end = 0, len(data)
        offsets = runs[0].offsets
        unpack = _U32_PAIR[self._order].unpack_from
        while at < limit and at + 12 <= end:
            kind, size = unpack(data, at)
            following = at + size
            if kind == _ENHANCED:
                if size < 32 or size & 3 or following > end:
                    state.is_ended = size < 32 or bool(size & 3) or size > pcapng._BLOCK_SIZE_MAX
                    break
                offsets.append(at)
                at = following
                continue
            is_section = kind == _SECTION
            if is_section and at + 16 > end:
                break
            if is_section:
                self._order = ">" if data[at + 8 : at + 12] == b"\x1a\x2b\x3c\x4d" else "<"
                unpack = _U32_PAIR[self._order].unpack_from
                size = unpack(data, at)[1]
                following = at + size
            if size < 12 or size & 3 or not self._read_other_block(kind, at, following):
                state.is_ended = True
                break
            if is_section:
                runs.append(self._new_run())
                offsets = runs[-1].offsets
            elif kind == pcapng.INTERFACE:
                runs[-1].interface_counts.append((len(offsets), len(self._interfaces)))
            if following > end and kind in pcapng._READ and not is_section:
                break
            # Long blocks of other kinds are skipped, wherever they end.
            at = following
        state.position = RecordPosition(self._base + at, self._order, tuple(self._interfaces))
        return runs, at

    def _read_other_block(self, kind: int, at: int, end: int) -> bool:
        """Read a block that is not an enhanced packet; False if only the streaming reader can read it."""
        data = self._data
        if kind == _SECTION:
            self._interfaces = []
            return data[at + 8 : at + 12] in {b"\x1a\x2b\x3c\x4d", b"\x4d\x3c\x2b\x1a"} and end - at >= 28
        if kind not in pcapng._READ or end > len(data):
            return True
        body = data[at + 8 : end - 4]
        if data[end - 4 : end] != data[at + 4 : at + 8]:
            return False
        try:
            if kind == pcapng.INTERFACE:
                self._interfaces.append(pcapng_blocks.parse_interface(body, self._order))
            elif kind == pcapng._SECRETS:
                label, size = struct.unpack_from(self._order + "II", body)
                if label == pcapng._TLS_KEY_LOG:
                    self._state.key_logs.append((self._base + at + 16, min(size, len(body) - 8)))
            elif kind == pcapng.STATISTICS:
                issue = pcapng_blocks.parse_dropped_packets(body, self._order, self._interfaces)
                self._state.issues += [] if issue is None else [issue]
                check_issue_count(self._state.issues)
            else:
                return False
        except struct.error:
            return False
        return len(self._interfaces) <= pcapng.INTERFACES_MAX


def check_issue_count(issues: list[CaptureIssue]) -> None:
    """Raises: NotIndexed when there are more issues than an index holds."""
    if len(issues) > ISSUES_MAX:
        raise NotIndexed(f"there are more than {ISSUES_MAX:,} issues in the file")


def _read_packet_headers(data: bytes, run: _PacketRun) -> tuple[Ints, ...]:
    """Times, offsets, captured sizes, sizes on the wire, and links of a run's packets, up to the first invalid one."""
    offsets = np.array(run.offsets, dtype=np.int64)
    kind = np.dtype(run.order + "u4")
    headers = gather_bytes(data, offsets, 28).view(kind).astype(np.int64)
    block_size, interface, captured, size = headers[:, 1], headers[:, 2], headers[:, 5], headers[:, 6]
    end_sizes = gather_bytes(data, offsets + block_size - 4, 4).view(kind).astype(np.int64)[:, 0]
    places, counts = np.array(run.interface_counts, dtype=np.int64).T
    interface_counts = np.repeat(counts, np.diff(np.append(places, len(offsets))))
    is_good = (end_sizes == block_size) & (interface < interface_counts) & (captured <= block_size - 32)
    count = len(offsets) if is_good.all() else int(np.argmin(is_good))
    interface = interface[:count]
    links = np.array([description.link for description in run.interfaces], dtype=np.int64)[interface]
    stamps = _timestamps(headers[:count, 3], headers[:count, 4], interface, run.interfaces)
    return stamps, (offsets + 28)[:count], captured[:count], np.maximum(size, captured)[:count], links


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
