"""The blocks of a pcapng file: enhanced packets in good order are walked here, all else is left to the exact reader."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture import blocks, pcapng
from kwire.capture.index.walking.files import File, NotIndexed, Source
from kwire.capture.index.walking.head_pass import TROUBLES_MAX
from kwire.capture.index.walking.heads import gather
from kwire.capture.index.walking.resync import pcapng_place
from kwire.capture.index.walking.spans import Place, Span, Walked, read_size
from kwire.capture.keylog import KeyLog
from kwire.capture.packets import packets
from kwire.capture.values import Packet, Trouble

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_U32_PAIR = {"<": struct.Struct("<II"), ">": struct.Struct(">II")}
_ENHANCED, _SECTION = 6, 0x0A0D0D0A
# What a file says of its interfaces, it says so near its beginning, nearly always.
_GUESS_SIZE = 256 * 1024


class _Run(NamedTuple):
    """Enhanced packets of one section, whatever blocks lie between them.

    known: how many interfaces were described in front of a packet, by its place in `offsets`, wherever that changes.
    """

    order: str
    interfaces: list[blocks.Interface]
    offsets: list[int]
    known: list[tuple[int, int]]


class _Step(NamedTuple):
    """What one read gave: the packets that begin in it, in runs, and where the next block begins."""

    base: int
    data: bytes
    runs: list[_Run]
    end: int


class Pcapng:
    """Walks blocks. Whatever is not an enhanced packet in good order is left to the exact reader."""

    may_have_secrets = True
    first = Place(0)
    """Where the first block is."""

    def __init__(self, file: File, source: Source, span_size: int) -> None:
        """`source` is what the exact reader is given, where it must be asked."""
        self._file = file
        self._source = source
        self._span_size = span_size

    def spans(self, stop: int, walked: Walked) -> Iterator[Span]:
        """The packets from where `walked` is, of blocks that begin before this offset, which is of the grid."""
        for base, data, runs, end in self._steps(stop, walked):
            found: list[tuple[Ints, ...]] = []
            for run in runs:
                if run.offsets:
                    found.append(_packets(data, run))
                if run.offsets and len(found[-1][0]) < len(run.offsets):
                    walked.is_ended = True
                    break
            if not any(len(columns[0]) for columns in found):
                continue
            stamps, at, kept, size, links = (np.concatenate(columns) for columns in zip(*found, strict=True))
            first = walked.packet_count + 1
            walked.packet_count += len(at)
            walked.last_ts = int(stamps[-1])
            numbers = np.arange(first, first + len(at), dtype=np.int64)
            yield Span(base, data, min(end, len(data)), numbers, stamps, at, kept, size, links)

    def places(self, stops: list[int]) -> Iterator[Place]:
        """Where the first block is that does not begin before each of these offsets."""
        walked = Walked(self.first)
        for stop in stops:
            for _ in self._steps(stop, walked):
                pass
            yield walked.place

    def guess(self, start: int, stop: int) -> Place | None:
        """Where the first packet between two offsets is, as far as one can tell without the walk; None for nowhere.

        Byte order and interfaces are taken to be those that the file begins with.
        """
        blocks_ = _Blocks(Walked(self.first), 0, self._file.read(0, _GUESS_SIZE))
        end = blocks_.walk(_GUESS_SIZE)
        return pcapng_place(self._file, blocks_.place(end), start, stop)

    def close(self, walked: Walked) -> None:
        """Where anything was odd, ask the exact reader once more for its troubles.

        Raises: NotIndexed where there are more packets behind what is odd.
        """
        refuse_too_much(walked.troubles)
        if not walked.is_ended and walked.place.at <= self._file.size:
            return
        troubles: list[Trouble] = []
        found = 0
        for each in packets(self._source, KeyLog()):
            if isinstance(each, Packet):
                found += 1
            else:
                troubles.append(each)
            refuse_too_much(troubles)
        if found != walked.packet_count:
            raise NotIndexed("the file has blocks that are read one by one only")
        walked.troubles[:] = troubles

    def _steps(self, stop: int, walked: Walked) -> Iterator[_Step]:
        at, is_long = walked.place.at, False
        while at < min(stop, self._file.size) and not walked.is_ended:
            limit, size = read_size(at, self._span_size, is_long=is_long)
            blocks_ = _Blocks(walked, at, self._file.read(at, size))
            end = blocks_.walk(limit)
            if not end and not is_long and len(blocks_.data) == size:
                is_long = True
                continue
            walked.place, is_long = blocks_.place(end), False
            walked.is_ended |= blocks_.is_odd or not end
            yield _Step(at, blocks_.data, blocks_.runs, end)
            at += end


class _Blocks:
    """The blocks of one read."""

    def __init__(self, walked: Walked, base: int, data: bytes) -> None:
        self.data = data
        self.is_odd = False
        self._walked = walked
        self._base = base
        self._order = walked.place.order
        self._interfaces = list(walked.place.interfaces)
        self.runs = [self._run()]

    def place(self, end: int) -> Place:
        """Where the next block is, at this offset in the data."""
        return Place(self._base + end, self._order, tuple(self._interfaces))

    def _run(self) -> _Run:
        return _Run(self._order, self._interfaces, [], [(0, len(self._interfaces))])

    def walk(self, limit: int) -> int:
        """Take in the blocks that begin before the limit; where the next one is."""
        data, runs = self.data, self.runs
        at, end = 0, len(data)
        offsets = runs[0].offsets
        unpack = _U32_PAIR[self._order].unpack_from
        while at < limit and at + 12 <= end:
            kind, size = unpack(data, at)
            following = at + size
            if kind == _ENHANCED:
                if size < 32 or size & 3 or following > end:
                    self.is_odd = size < 32 or bool(size & 3) or size > pcapng._BLOCK_SIZE_MAX
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
            if size < 12 or size & 3 or not self._other(kind, at, following):
                self.is_odd = True
                break
            if is_section:
                runs.append(self._run())
                offsets = runs[-1].offsets
            elif kind == pcapng.INTERFACE:
                runs[-1].known.append((len(offsets), len(self._interfaces)))
            if following > end and kind in pcapng._READ and not is_section:
                break
            # Long blocks of other kinds are passed over, wherever they end.
            at = following
        return at

    def _other(self, kind: int, at: int, end: int) -> bool:
        """Take in a block that is no enhanced packet; False when only the exact reader can."""
        data = self.data
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
                refuse_too_much(self._walked.troubles)
            else:
                return False
        except struct.error:
            return False
        return len(self._interfaces) <= pcapng.INTERFACES_MAX


def refuse_too_much(troubles: list[Trouble]) -> None:
    """Raises: NotIndexed when there are more troubles than an index holds."""
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
