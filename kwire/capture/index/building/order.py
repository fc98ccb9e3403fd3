"""Segments of clean flows in the order of their streams, duplicates left out; what is not clean is found here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.halves import RESENT_DISTANCE_MAX
from kwire.capture.index.building.flows import FIN_END, RST_END, Flows
from kwire.capture.index.building.overlaps import Row, settled
from kwire.capture.index.building.patience import Acks, spoil_late

if TYPE_CHECKING:
    import numpy.typing as npt

    from kwire.capture.index.walking.heads import Heads

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10
_MASK, _HALF = 0xFFFFFFFF, 0x80000000
# What no packet number reaches.
NEVER = 1 << 62
# In front of all packets: where a flow that began before the capture is in step.
NO_SYN = 0
# Above every packet number: what keeps groups apart in running maxima.
_APART = 1 << 40


class Pieces(NamedTuple):
    """Segments with data. side: twice the flow's number plus the side. offset: unwrapped sequence number.

    at: where they begin in the file. arrival: which packet of its flow each is. done: the number of the packet with
    which everything up to its end was there.
    """

    side: Ints
    offset: Ints
    size: Ints
    at: Ints
    ts: Ints
    number: Ints
    arrival: Ints
    done: Ints

    def of(self, chosen: Ints | Bools) -> Pieces:
        """Some of them."""
        return Pieces(*(column[chosen] for column in self))


NO_PIECES = Pieces(*[np.zeros(0, dtype=np.int64)] * 8)


def joined(parts: list[Pieces]) -> Pieces:
    """All of them, in the order given."""
    return Pieces(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def count_in(flows: Flows, flow: Ints, heads: Heads) -> Ints:
    """Count the packets of a span; which packet of its flow each is."""
    order = np.argsort(flow, kind="stable")
    own = flow[order]
    firsts = np.nonzero(_changes(own))[0]
    counts = np.diff(np.append(firsts, len(own)))
    arrival = np.empty(len(flow), dtype=np.int64)
    arrival[order] = np.arange(len(own)) - np.repeat(firsts, counts) + flows.packets[own]
    chosen = own[firsts]
    ts, size = heads.ts[order], (heads.kept + heads.missing)[order]
    flows.packets[chosen] += counts
    flows.size[chosen] += np.add.reduceat(size, firsts)
    flows.first_ts[chosen] = np.minimum(flows.first_ts[chosen], np.minimum.reduceat(ts, firsts))
    flows.last_ts[chosen] = np.maximum(flows.last_ts[chosen], np.maximum.reduceat(ts, firsts))
    is_new = flows.link[chosen] < 0
    flows.link[chosen[is_new]] = heads.link[order[firsts]][is_new]
    return arrival


def control(flows: Flows, flow: Ints, heads: Heads) -> Acks:
    """Take in the packets that open and end connections, and what was acknowledged."""
    for index in np.nonzero(heads.flags & (_SYN | _FIN | _RST))[0].tolist():
        own, side, flags = int(flow[index]), int(heads.side[index]), int(heads.flags[index])
        number, size = int(heads.number[index]), int(heads.kept[index] + heads.missing[index])
        if flags & _SYN:
            _syn(flows, (own, side), int(heads.seq[index]), size, number, is_answer=bool(flags & _ACK))
            if flags & (_FIN | _RST):
                # No system sends such; what it means, reassembly says.
                flows.spoil(np.array([own]), "reuse")
            continue
        at = 2 * own + side
        if flows.start[at] < 0:
            flows.spoil(np.array([own]), "midstream")
        if flags & _FIN:
            flows.fin[at] = (int(heads.seq[index]) + size) & _MASK
        if not flows.ended[own] and (flags & _RST or min(flows.fin[2 * own], flows.fin[2 * own + 1]) >= 0):
            flows.ended[own] = RST_END if flags & _RST else FIN_END
            flows.ended_number[own] = number
    return _acknowledged(flows, flow, heads)


def _syn(flows: Flows, which: tuple[int, int], seq: int, size: int, number: int, *, is_answer: bool) -> None:
    own, side = which
    at, first = 2 * own + side, (seq + 1) & _MASK
    if flows.start[at] < 0 and not size and not flows.ended[own]:
        for name in ("start", "next", "frame_at", "acked"):
            getattr(flows, name)[at] = first
        flows.syn_number[at] = number
        flows.syns[own] += not is_answer
        if flows.syns[own] > 1:
            # Both sides opened it at once.
            flows.spoil(np.array([own]), "reuse")
        if flows.opener[own] < 0:
            flows.opener[own] = 1 - side if is_answer else side
    elif flows.start[at] != first or flows.ended[own] or size or flows.syn_number[at] == NO_SYN:
        flows.syns[own] += not is_answer
        flows.spoil(np.array([own]), "reuse")


def _acknowledged(flows: Flows, flow: Ints, heads: Heads) -> Acks:
    """The highest number that each side has had acknowledged."""
    before = flows.acked.copy()
    has_ack = np.nonzero((heads.flags & _ACK) > 0)[0]
    other = 2 * flow[has_ack] + 1 - heads.side[has_ack]
    known = flows.start[other] >= 0
    other, ack, number = other[known], heads.ack[has_ack][known], heads.number[has_ack][known]
    reference = flows.next[other]
    ack = reference + ((ack - reference + _HALF) & _MASK) - _HALF
    np.maximum.at(flows.acked, other, ack)
    return Acks(before, other, ack, number)


def pieces_of(flows: Flows, flow: Ints, heads: Heads, arrival: Ints) -> Pieces:
    """The segments with data of flows that are clean after these packets' headers."""
    chosen = np.nonzero((heads.kept + heads.missing) > 0)[0]
    own, number = flow[chosen], heads.number[chosen]
    flows.spoil(own[heads.missing[chosen] > 0], "snaplen")
    flows.spoil(own[heads.at[chosen] < 0], "fragments")
    is_before = np.maximum(flows.syn_number[2 * own], flows.syn_number[2 * own + 1]) > number
    flows.spoil(own[is_before], "midstream")
    flows.spoil(own[number > flows.ended_number[own]], "after_end")
    clean = flows.is_clean(own)
    chosen, own, number = chosen[clean], own[clean], number[clean]
    side = 2 * own + heads.side[chosen]
    reference = flows.next[side]
    offset = reference + ((heads.seq[chosen] - reference + _HALF) & _MASK) - _HALF
    return Pieces(side, offset, heads.kept[chosen], heads.at[chosen], heads.ts[chosen], number, arrival[chosen], number)


def in_order(flows: Flows, found: Pieces, acks: Acks) -> tuple[Pieces, Pieces]:
    """What continues the streams, by side and offset; and what waits behind a hole that may still be filled."""
    found = _sorted(found)
    end = found.offset + found.size
    is_first = _changes(found.side)
    is_copy = ~is_first
    is_copy[1:] &= (found.offset[1:] == found.offset[:-1]) & (found.size[1:] == found.size[:-1])
    # Only another connection, whose SYN was not captured, sends what lies so far behind.
    start = np.where(flows.syn_number[found.side] == NO_SYN, 0, flows.start[found.side])
    behind = np.maximum(flows.frame_at[found.side] - RESENT_DISTANCE_MAX // 2, start)
    flows.spoil(found.side[end < behind] >> 1, "reuse")
    found = found.of(~is_copy & (end > flows.frame_at[found.side]))
    if not len(found.side):
        return found, found
    is_first, expected = _expected(flows, found)
    overlaps = np.unique(found.side[found.offset < expected])
    if len(overlaps):
        found = _sorted(_settled(flows, found, overlaps))
        is_first, expected = _expected(flows, found)
    group = np.cumsum(is_first, dtype=np.int64)
    hole = np.where(found.offset > expected, group, 0)
    # The group's number from its first hole on.
    is_behind = np.maximum.accumulate(hole) == group
    found = found._replace(done=np.maximum.accumulate(found.number + group * _APART) - group * _APART)
    _disorder(flows, found, group, acks)
    clean = flows.is_clean(found.side >> 1)
    return found.of(clean & ~is_behind), found.of(clean & is_behind)


def _expected(flows: Flows, found: Pieces) -> tuple[Bools, Ints]:
    """Which of the segments are the first of their side, and where each begins if nothing is missing or comes twice."""
    is_first = _changes(found.side)
    expected = np.empty(len(found.side), dtype=np.int64)
    expected[1:] = (found.offset + found.size)[:-1]
    expected[is_first] = flows.frame_at[found.side[is_first]]
    return is_first, expected


def _settled(flows: Flows, found: Pieces, sides: Ints) -> Pieces:
    """The segments; of those of some sides, which overlap, what is new of each."""
    rows: list[tuple[int, ...]] = []
    for side in sides.tolist():
        own = found.of(found.side == side)
        own = own.of(np.argsort(own.number, kind="stable"))
        columns = (own.offset, own.size, own.at, own.ts, own.number, own.arrival)
        given = [Row(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        for row in settled(given, int(flows.frame_at[side])):
            rows.append((side, row.offset, row.size, row.at, row.ts, row.number, row.arrival, row.number))
    others = found.of(~np.isin(found.side, sides))
    return joined([others, Pieces(*np.array(rows, dtype=np.int64).reshape(-1, len(Pieces._fields)).T)])


def _sorted(found: Pieces) -> Pieces:
    order = np.argsort(found.side, kind="stable")
    side, offset, number = found.side[order], found.offset[order], found.number[order]
    is_same = side[1:] == side[:-1]
    later = (offset[1:] > offset[:-1]) | ((offset[1:] == offset[:-1]) & (number[1:] >= number[:-1]))
    if bool((is_same & ~later).any()):
        order = np.lexsort((found.number, found.offset, found.side))
    return found.of(order)


def _disorder(flows: Flows, found: Pieces, group: Ints, acks: Acks) -> None:
    """A hole that waits for long may be given up by reassembly, even where it is filled later."""
    if bool((found.done == found.number).all()):
        return
    last = group[-1] - group[::-1]
    lowest = np.minimum.accumulate(found.arrival[::-1] - last * _APART) + last * _APART
    spoil_late(flows, found, found.arrival - lowest[::-1], acks)


def _changes(values: Ints) -> Bools:
    """Whether each value differs from the one before."""
    out = np.ones(len(values), dtype=np.bool_)
    out[1:] = values[1:] != values[:-1]
    return out
