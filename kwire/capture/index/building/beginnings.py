"""Flows that began before the capture: who is followed by the generators for a while, and how columns go on from there.

What their beginnings tell is kept apart from what spans complete, for it may be older than the span in which both sides
of a flow were found to be in step. `Index.exchanges` puts it where it belongs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.index.building import pairing
from kwire.capture.index.building.beginning import ENDS, Beginning, Side, Stretch
from kwire.capture.index.building.flows import Flows
from kwire.capture.index.building.headers import ClientIds, Headers
from kwire.capture.index.building.hop import BEGUN_FIRST, Frames, Held, Parts, Places, Read
from kwire.capture.index.building.order import NEVER, NO_PIECES, NO_SYN, Pieces
from kwire.capture.index.building.pairing import Answered, Asked, Exchanges, joined_answered, no_answers, no_requests
from kwire.capture.index.walking.heads import LINK_NAMES, Heads
from kwire.capture.values import Lost, Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from kwire.capture.bodies import Request
    from kwire.capture.exchange import Exchange, Standing
    from kwire.capture.values import Flow, Frame

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

_SYN = 0x02
_TAKEN = [name for name in Heads._fields if name != "ends"]
# How a flow is read: nothing was seen that counts, its beginning by the generators, all of it by columns.
NEW, BEGINNING, BY_COLUMNS = 0, 1, 2
# What all beginnings together may hold of payload.
HELD_SIZE_MAX = 64 * 1024 * 1024
# Where so many flows stay undecided for long, the generators hold less of each: so few bytes must show the client then.
UNDECIDED_MAX = 16
_UNDECIDED_SIZE = 64 * 1024


class LostRow(NamedTuple):
    """A `Lost` of a flow by its number. done: the packet with which it was known."""

    flow: int
    is_request: bool
    ts: int
    offset: int
    missing: int
    skipped: int
    kind: str
    detail: str
    done: int

    def of(self, flow: Flow) -> Lost:
        """The value that the generators make."""
        return Lost(flow, *self[1:-1])


class Begun(NamedTuple):
    """What beginnings tell, in the order in which it was complete. Where a response has no request, that has size -1.

    pieces: of bodies that lie in several, numbered from `BEGUN_FIRST`.
    """

    exchanges: Exchanges
    pieces: Places
    lost: list[LostRow]


class Entry(NamedTuple):
    """What the columns go on with: requests that wait, and parts of frames."""

    waiting: Asked
    left: Pieces


_NO_NUMBERS: Ints = np.zeros(0, dtype=np.int64)
NOTHING = Entry(no_requests(_NO_NUMBERS), NO_PIECES)


class Beginnings:
    """The beginnings of all flows that need one."""

    def __init__(self, flows: Flows, read: Read, client_ids: ClientIds, *, is_limited: bool) -> None:
        """`client_ids` are those of the flows' other requests, too. `is_limited`: these are all flows of the file."""
        self._flows = flows
        self._read = read
        self._parts = Parts(first=BEGUN_FIRST)
        self._headers = Headers(flows, read, self._parts, client_ids)
        self._open: dict[int, Beginning] = {}
        self._is_limited = is_limited
        self._held_size = 0
        self.held_most = 0
        """No more than this was held of payload since packets were last taken."""
        self.undecided = 0
        """How many flows were given up that did not show their client."""
        self._done: list[Exchanges] = []
        self._orphans = no_answers(0)
        self._lost: list[LostRow] = []

    def take(self, heads: Heads, flow: Ints, arrival: Ints, held: Held) -> tuple[Ints | None, Entry]:
        """Follow the flows that began before the capture.

        Returns: which packets are for the columns, None for all; and what these go on with, of flows that are in step
        from now on.
        """
        self.held_most = self._held_size
        self._look(heads, flow)
        mine = np.nonzero(self._flows.stage[flow] == BEGINNING)[0]
        if not len(mine):
            return None, NOTHING
        mine = mine[np.argsort(flow[mine], kind="stable")]
        own = flow[mine]
        firsts = np.nonzero(np.append(True, own[1:] != own[:-1]))[0]
        is_mine = np.ones(len(flow), dtype=np.bool_)
        found: list[_InStep] = []
        for first, stop in zip(firsts.tolist(), [*firsts[1:].tolist(), len(mine)], strict=True):
            packets = mine[first:stop]
            number = int(own[first])
            count, in_step = self._follow(number, heads, packets, arrival)
            is_mine[packets[:count]] = False
            if in_step is not None:
                found.append(in_step)
        return np.nonzero(is_mine)[0], self._entry(found, held) if found else NOTHING

    def asked(self, asked: Asked) -> None:
        """Requests that came later: what nobody asked for so far may be the answer to one of them."""
        orphans = self._orphans
        if len(orphans.correlation_id) and len(asked.number):
            keys = (orphans.frame.side >> 1) << 32 | (orphans.correlation_id & 0xFFFFFFFF)
            flow = asked.frame.side >> 1
            is_known = np.isin(flow << 32 | (asked.correlation_id & 0xFFFFFFFF), keys)
            self._flows.spoil(flow[is_known], "pairing")

    def close(self) -> None:
        """The end: those that are not in step never will be."""
        self._flows.spoil(np.array([*self._open], dtype=np.int64), "midstream")

    def begun(self) -> Begun:
        """What all of them have told that are clean."""
        flows = self._flows
        orphans = self._orphans
        flow = orphans.frame.side >> 1
        done = np.where(flows.ended[flow] > 0, flows.ended_number[flow], NEVER)
        last = Exchanges(no_requests(2 * flow + flows.opener[flow]), orphans, done)
        whole = pairing.joined([*self._done, last])
        whole = whole.of(np.nonzero(flows.is_clean(whole.flow))[0])
        return joined([Begun(whole, self._parts.taken(), [row for row in self._lost if not flows.why[row.flow]])])

    def _look(self, heads: Heads, flow: Ints) -> None:
        """Whether new flows begin with a SYN. What comes before their first data does not count."""
        stage = self._flows.stage
        new = np.nonzero(stage[flow] == NEW)[0]
        if not len(new):
            return
        counts = (heads.kept[new] + heads.missing[new] > 0) | ((heads.flags[new] & _SYN) > 0)
        own, first = np.unique(flow[new[counts]], return_index=True)
        is_open = (heads.flags[new[counts][first]] & _SYN) > 0
        stage[own] = np.where(is_open, BY_COLUMNS, BEGINNING)

    def _follow(self, number: int, heads: Heads, packets: Ints, arrival: Ints) -> tuple[int, _InStep | None]:
        """Take packets of a flow until it is in step; how many were taken, none where it has failed."""
        beginning = self._open.get(number)
        if beginning is None:
            beginning = self._open[number] = Beginning()
        columns = [getattr(heads, name) for name in _TAKEN]
        for taken in range(len(packets)):
            place = int(packets[taken])
            before = beginning.size
            self._give(beginning, [int(column[place]) for column in columns], int(arrival[place]))
            self._held_size += beginning.size - before
            self.held_most += max(beginning.size - before, 0)
            is_much = self._is_limited and self._is_much(beginning)
            found = None if is_much else beginning.standing()
            if beginning.has_failed or is_much:
                self.undecided += beginning.is_undecided
                self._flows.spoil(np.array([number]), "midstream")
                self._close(number, beginning)
                return 0, None
            if found is not None:
                self._close(number, beginning)
                return taken + 1, _InStep(number, beginning, *found)
        return len(packets), None

    def _give(self, beginning: Beginning, row: list[int], arrival: int) -> None:
        number, ts, link, side, seq, ack, flags, window, at, kept, missing = row
        if at < 0 and kept:
            # Its payload came in fragments.
            beginning.has_failed = True
            return
        payload = self._read(at, kept) if kept else b""
        link_name = LINK_NAMES[link]
        source, target = ENDS[side], ENDS[1 - side]
        beginning.take(
            Segment(ts, link_name, source, target, seq, ack, flags, payload, missing, number, window), at, arrival
        )

    @property
    def piece_count(self) -> int:
        """How many pieces of bodies there are by now."""
        return len(self._parts.at)

    def _is_much(self, beginning: Beginning) -> bool:
        if self._held_size > HELD_SIZE_MAX:
            return True
        return self.undecided > UNDECIDED_MAX and beginning.size > _UNDECIDED_SIZE and beginning.is_undecided

    def _close(self, number: int, beginning: Beginning) -> None:
        del self._open[number]
        self._held_size -= beginning.size
        self._flows.stage[number] = BY_COLUMNS

    def _entry(self, found: Sequence[_InStep], held: Held) -> Entry:
        """Set the columns of these flows, keep what they have told, and say what goes on."""
        for each in found:
            self._set(each)
        rows = [self._frame_row(each, frame, done) for each in found for frame, done in each.beginning.frames]
        columns = np.array(rows, dtype=np.int64).reshape(-1, len(Frames._fields)).T
        asked, answered = self._headers.split(Frames(*columns), *held)
        places = _Places(asked, answered)
        done: list[Exchanges] = []
        waiting: list[int] = []
        for each in found:
            if not self._flows.why[each.number]:
                done.append(places.exchanges(each))
                waiting += places.waiting(each)
                orphans = answered.of(np.array(places.orphans(each), dtype=np.int64))
                self._orphans = joined_answered(self._orphans, orphans)
                self._lost += each.lost
        self._done += done
        return Entry(places.asked.of(np.array(waiting, dtype=np.int64)), _left(found))

    def _set(self, found: _InStep) -> None:
        flows, number, flow = self._flows, found.number, found.beginning.flow
        for place, side in enumerate(found.sides):
            at = 2 * number + place
            flows.start[at], flows.next[at], flows.frame_at[at] = side.start, side.next, side.frame_at
            flows.acked[at], flows.syn_number[at] = side.acked, NO_SYN
        flows.opener[number] = flow.client_side
        flows.link[number] = LINK_NAMES.index(flow.link)
        flows.has_begun[number] = 1
        flows.count[number], flows.open[number] = found.standing.asked, found.standing.in_flight
        flows.answered[number] = found.standing.answered

    def _frame_row(self, found: _InStep, frame: Frame, done: int) -> tuple[int, ...]:
        side = 2 * found.number + found.side_of(frame)
        pieces = found.beginning.stretches(frame)
        at, count = (pieces[0][0] if pieces else 0), 0
        if len(pieces) > 1:
            at, count = -1 - self._parts.first - len(self._parts.at), len(pieces)
            for begin, size in pieces:
                self._parts.at.append(begin)
                self._parts.size.append(size)
                self._parts.side.append(side)
        return side, frame.packet, frame.ts, frame.end_ts, frame.offset, frame.size, at, count, done


class _InStep(NamedTuple):
    """A flow whose sides are in step now."""

    number: int
    beginning: Beginning
    sides: tuple[Side, Side]
    standing: Standing

    def side_of(self, frame: Frame) -> int:
        """Which side has sent it."""
        client = self.beginning.flow.client_side
        return client if frame.is_request else 1 - client

    @property
    def lost(self) -> list[LostRow]:
        """What was passed over."""
        return [LostRow(self.number, *each[1:], done) for each, done in self.beginning.lost]


class _Places:
    """Finds the rows of frames."""

    def __init__(self, asked: Asked, answered: Answered) -> None:
        """Of these requests and responses; `asked` has what pairing tells of them once that is known."""
        told = {name: getattr(asked, name).copy() for name in ("number", "in_flight", "wants_answer")}
        self.asked = asked._replace(**told)
        self._answered = joined_answered(answered, no_answers(1))
        self._places: dict[tuple[int, int], int] = {}
        for frames in (asked.frame, answered.frame):
            for index, key in enumerate(zip(frames.side.tolist(), frames.offset.tolist(), strict=True)):
                self._places[key] = index

    def exchanges(self, found: _InStep) -> Exchanges:
        """Those that are complete."""
        requests, responses, orders = [], [], []
        for exchange, _ in found.beginning.exchanges:
            requests.append(self._request(found, exchange))
            response = exchange.response
            responses.append(-1 if response is None else self._of(found, response.frame))
            orders.append(-1 if response is None else int(bool(response.order_ok)))
        answered = self._answered.of(np.array(responses, dtype=np.int64))._replace(
            order_ok=np.array(orders, dtype=np.int64)
        )
        done = np.array([number for _, number in found.beginning.exchanges], dtype=np.int64)
        return Exchanges(self.asked.of(np.array(requests, dtype=np.int64)), answered, done)

    def waiting(self, found: _InStep) -> list[int]:
        """The rows of requests that wait."""
        return [self._told(found, request) for request in found.standing.requests]

    def orphans(self, found: _InStep) -> list[int]:
        """The rows of responses that nobody asked for."""
        return [self._of(found, frame) for frame in found.standing.responses]

    def _request(self, found: _InStep, exchange: Exchange) -> int:
        assert exchange.request is not None
        return self._told(found, exchange.request)

    def _told(self, found: _InStep, request: Request) -> int:
        place = self._of(found, request.frame)
        self.asked.number[place], self.asked.in_flight[place] = request.number, request.in_flight
        self.asked.wants_answer[place] = request.wants_answer
        return place

    def _of(self, found: _InStep, frame: Frame) -> int:
        return self._places[2 * found.number + found.side_of(frame), frame.offset]


def _done_of(row: LostRow) -> int:
    return row.done


def joined(parts: Sequence[Begun]) -> Begun:
    """What builders of different flows have found, as if one had found it; flows and client ids have their numbers.

    The pieces of each part are numbered behind those of the parts before it: see `moved`.
    """
    pieces = Places(*(np.concatenate(columns) for columns in zip(*(each.pieces for each in parts), strict=True)))
    found, first = [], 0
    for each in parts:
        request, response = each.exchanges.request, each.exchanges.response
        request = request._replace(frame=moved(request.frame, first))
        found.append(Exchanges(request, response._replace(frame=moved(response.frame, first)), each.exchanges.done))
        first += len(each.pieces.at)
    whole = pairing.joined(found)
    lost = sorted((row for each in parts for row in each.lost), key=_done_of)
    return Begun(whole.of(np.lexsort((whole.flow, whole.done))), pieces, lost)


def moved(frames: Frames, first: int) -> Frames:
    """The frames, where those that lie in pieces of beginnings have these numbered from another first one on.

    Requests that wait when a flow is in step are such, and their exchanges are found among those of spans.
    """
    return frames._replace(at=np.where(frames.at < -BEGUN_FIRST, frames.at - first, frames.at))


def _left(found: Sequence[_InStep]) -> Pieces:
    """The parts of frames of which not all has come."""
    rows: list[tuple[int, ...]] = []
    for each in found:
        for place, side in enumerate(each.sides):
            rows += [_piece(2 * each.number + place, side.start, stretch) for stretch in side.left]
    if not rows:
        return NO_PIECES
    return Pieces(*np.array(rows, dtype=np.int64).T)


def _piece(side: int, start: int, stretch: Stretch) -> tuple[int, ...]:
    offset, size, at, ts, number, arrival, done = stretch
    return side, start + offset, size, at, ts, number, arrival, done
