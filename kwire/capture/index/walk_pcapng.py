"""The blocks of a pcapng file: enhanced packets in good order are walked here, all else is left to the exact reader."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture import blocks, pcapng
from kwire.capture.index.files import File, NotIndexed
from kwire.capture.index.heads import TROUBLES_MAX, gather
from kwire.capture.index.spans import SPAN_SIZE, Span, Walked
from kwire.capture.keylog import KeyLog
from kwire.capture.packets import packets
from kwire.capture.values import Packet, Trouble

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_U32_PAIR = {"<": struct.Struct("<II"), ">": struct.Struct(">II")}
_ENHANCED, _SECTION = 6, 0x0A0D0D0A


class _Run(NamedTuple):
    """Enhanced packets of one section, whatever blocks lie between them.

    known: how many interfaces were described in front of a packet, by its place in `offsets`, wherever that changes.
    """

    order: str
    interfaces: list[blocks.Interface]
    offsets: list[int]
    known: list[tuple[int, int]]


class Pcapng:
    """Walks blocks. Whatever is not an enhanced packet in good order is left to the exact reader."""

    def __init__(self, file: File, source: str | os.PathLike[str] | bytes, walked: Walked) -> None:
        """`source` is what the exact reader is given, where it must be asked."""
        self._file = file
        self._source = source
        self._walked = walked
        self._order = "<"
        self._interfaces: list[blocks.Interface] = []
        self._base = 0
        self._is_odd = False

    def spans(self) -> Iterator[Span]:
        """The packets; where anything is odd, the exact reader is asked once more for its troubles."""
        base = 0
        while base < self._file.size and not self._is_odd:
            self._base = base
            data = self._file.read(base, SPAN_SIZE)
            runs, at = self._blocks(data)
            span = self._span(data, runs)
            if span is not None:
                yield span
            if at == 0 or (base + len(data) >= self._file.size and at < len(data)):
                self._is_odd = True
            base += at
        if self._is_odd or base > self._file.size:
            self._ask_exact()

    def _run(self) -> _Run:
        return _Run(self._order, self._interfaces, [], [(0, len(self._interfaces))])

    def _blocks(self, data: bytes) -> tuple[list[_Run], int]:
        runs = [self._run()]
        at, end = 0, len(data)
        offsets = runs[0].offsets
        unpack = _U32_PAIR[self._order].unpack_from
        while at + 12 <= end:
            kind, size = unpack(data, at)
            following = at + size
            if kind == _ENHANCED:
                if size < 32 or size & 3 or following > end:
                    self._is_odd = size < 32 or bool(size & 3) or size > pcapng._BLOCK_SIZE_MAX
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
            if size < 12 or size & 3 or not self._other(kind, data, at, following):
                self._is_odd = True
                break
            if is_section:
                runs.append(self._run())
                offsets = runs[-1].offsets
            elif kind == pcapng.INTERFACE:
                runs[-1].known.append((len(offsets), len(self._interfaces)))
            if following > end:
                # Long blocks of other kinds are passed over, the rest of them by the next read.
                if kind in pcapng._READ and not is_section:
                    break
                return runs, following
            at = following
        return runs, at

    def _other(self, kind: int, data: bytes, at: int, end: int) -> bool:
        """Take in a block that is no enhanced packet; False when only the exact reader can."""
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
                self._interfaces.append(blocks.interface(body, self._order))
            elif kind == pcapng._SECRETS:
                label, size = struct.unpack_from(self._order + "II", body)
                if label == pcapng._TLS_KEY_LOG:
                    self._walked.secrets.append((self._base + at + 16, min(size, len(body) - 8)))
            elif kind == pcapng.STATISTICS:
                trouble = blocks.dropped(body, self._order, self._interfaces)
                self._walked.troubles += [] if trouble is None else [trouble]
                self._refuse_too_much(self._walked.troubles)
            else:
                return False
        except struct.error:
            return False
        return len(self._interfaces) <= pcapng.INTERFACES_MAX

    def _span(self, data: bytes, runs: list[_Run]) -> Span | None:
        """The packets of all runs, up to the first that is not good."""
        found: list[tuple[Ints, ...]] = []
        for run in runs:
            if run.offsets:
                found.append(_packets(data, run))
            if run.offsets and len(found[-1][0]) < len(run.offsets):
                self._is_odd = True
                break
        if not any(len(columns[0]) for columns in found):
            return None
        stamps, at, kept, size, links = (np.concatenate(columns) for columns in zip(*found, strict=True))
        first = self._walked.packet_count + 1
        self._walked.packet_count += len(at)
        numbers = np.arange(first, first + len(at), dtype=np.int64)
        return Span(self._base, data, numbers, stamps, at, kept, size, links)

    def _ask_exact(self) -> None:
        """The exact reader may find more packets behind what is odd: then there is no index of this file."""
        count = self._walked.packet_count
        troubles: list[Trouble] = []
        found = 0
        source = self._source
        for each in packets(source, KeyLog()):
            if isinstance(each, Packet):
                found += 1
            else:
                troubles.append(each)
            self._refuse_too_much(troubles)
        if found != count:
            raise NotIndexed("the file has blocks that are read one by one only")
        self._walked.troubles[:] = troubles

    def _refuse_too_much(self, troubles: list[Trouble]) -> None:
        if len(troubles) > TROUBLES_MAX:
            raise NotIndexed(f"there are more than {TROUBLES_MAX:,} troubles in the file")


def _packets(data: bytes, run: _Run) -> tuple[Ints, ...]:
    """Times, places, sizes kept and on the wire, and links of a run's packets, up to the first that is not good."""
    offsets = np.array(run.offsets, dtype=np.int64)
    kind = np.dtype(run.order + "u4")
    heads = gather(data, offsets, 28).view(kind).astype(np.int64)
    block_size, interface, kept, size = heads[:, 1], heads[:, 2], heads[:, 5], heads[:, 6]
    ends = gather(data, offsets + block_size - 4, 4).view(kind).astype(np.int64)[:, 0]
    places, counts = np.array(run.known, dtype=np.int64).T
    known = np.repeat(counts, np.diff(np.append(places, len(offsets))))
    is_good = (ends == block_size) & (interface < known) & (kept <= block_size - 32)
    if not bool(is_good.all()):
        count = int(np.argmin(is_good))
        offsets, heads, interface = offsets[:count], heads[:count], interface[:count]
        kept, size = kept[:count], size[:count]
    links = np.array([each.link for each in run.interfaces], dtype=np.int64)[interface]
    stamps = _times(heads[:, 3], heads[:, 4], interface, run.interfaces)
    return stamps, offsets + 28, kept, np.maximum(size, kept), links


def _times(high: Ints, low: Ints, interface: Ints, interfaces: list[blocks.Interface]) -> Ints:
    """Nanoseconds of the interfaces' own clocks, exactly as `Interface.ns` has them."""
    out = np.zeros(len(high), dtype=np.int64)
    for index in np.unique(interface).tolist():
        own = interfaces[index]
        chosen = np.nonzero(interface == index)[0]
        ticks_high, ticks_low = high[chosen], low[chosen]
        factor, rest = divmod(1_000_000_000, own.per_second)
        limit = (2**62 // max(factor, 1)) >> 32
        if not rest and abs(own.offset) < 2**61 and bool((ticks_high < limit).all()):
            out[chosen] = np.maximum(((ticks_high << 32) | ticks_low) * factor + own.offset, 0)
        else:
            out[chosen] = [own.ns(*each) for each in zip(ticks_high.tolist(), ticks_low.tolist(), strict=True)]
    return out
