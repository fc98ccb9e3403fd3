"""The stateful part of phase 1: from the heads of packets, span after span, to exchanges and what each flow is.

It does not know where the heads come from: of one file as it is read, or as they were kept, of all flows or of some,
of one file or of several that follow each other (whose offsets somebody tells apart).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.exchange import HELD_SIZE_MAX, WAITING_MAX
from kwire.capture.index.building import beginnings, order, pairing
from kwire.capture.index.building.beginnings import Beginnings, Begun
from kwire.capture.index.building.early import Early
from kwire.capture.index.building.flows import Flows
from kwire.capture.index.building.headers import ClientIds, Headers
from kwire.capture.index.building.hop import Frames, Held, Parts, Places, Read, frames
from kwire.capture.index.building.pairing import Exchanges
from kwire.capture.index.building.patience import spoil_waiting
from kwire.capture.index.walking.heads import Heads
from kwire.capture.looking import REQUEST_HEAD, is_request, is_tls
from kwire.capture.options import FRAME_SIZE_MAX

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

# As much of a connection's first packet as the generators look at.
_FIRST_SIZE = 4 * REQUEST_HEAD
_REQUEST_COST = 2000


class Counted(NamedTuple):
    """What is limited for all flows of a file together, after a span.

    waits_size: of requests without an answer. begun_size: what was held at most of beginnings that are not in step.
    undecided: flows that were given up before they showed who the client is.
    """

    waits_size: int
    begun_size: int
    undecided: int


# The generators give up requests of some connections when those of all together become more than twice this.
LIMITS = Counted(HELD_SIZE_MAX // 2, beginnings.HELD_SIZE_MAX, beginnings.UNDECIDED_MAX)


class Part(NamedTuple):
    """What one span adds: the exchanges that it completes and the pieces of bodies.

    begun_count: how many pieces there are by now of bodies in beginnings.
    """

    exchanges: Exchanges
    places: Places
    counted: Counted
    begun_count: int


class Builder:
    """What goes from span to span. `flows` and `client_ids` say what is known by now."""

    def __init__(self, read: Read, *, is_limited: bool = True) -> None:
        """`read` has the bytes at the offsets that heads tell. `is_limited`: it has all flows, and heeds `LIMITS`."""
        self.flows = Flows()
        self._pieces = Parts()
        known = ClientIds()
        self._headers = Headers(self.flows, read, self._pieces, known)
        self._beginnings = Beginnings(self.flows, read, known, is_limited=is_limited)
        self._read = read
        self._is_limited = is_limited
        self._early = Early()
        self._left: list[order.Pieces] = [order.NO_PIECES]
        nothing = np.zeros(0, dtype=np.int64)
        self._waiting = pairing.Asked(Frames(*[nothing] * 9), *[nothing] * 8)

    @property
    def client_ids(self) -> list[str]:
        """The client ids, by the numbers that requests have."""
        return self._headers.client_ids.texts

    def part(self, heads: Heads, flow: Ints, held: Held) -> Part:
        """Take in the packets of a span.

        Args: heads: in the order of their numbers; `ends` is not looked at. flow: of each, numbered from 0 without a
        gap in the order in which they appear. held: what of the file is at hand; `read` is asked for the rest.
        """
        flows = self.flows
        if not len(flow):
            return self._part(pairing.unanswered(self._waiting.of(flow)), self._counted())
        flows.reach(int(flow.max()) + 1)
        arrival = order.count_in(flows, flow, heads)
        chosen, entry = self._beginnings.take(heads, flow, arrival, held)
        if chosen is not None:
            heads, flow, arrival = heads.of(chosen), flow[chosen], arrival[chosen]
        acks = order.control(flows, flow, heads)
        found = order.joined([*self._left, entry.left, order.pieces_of(flows, flow, heads, arrival)])
        found, waiting = order.in_order(flows, found, acks)
        self._begin(found)
        complete, begun = frames(flows, found, held, self._read, self._pieces)
        asked, answered = self._headers.split(complete, *held)
        self._beginnings.asked(asked)
        waits = pairing.joined_asked(self._waiting, entry.waiting)
        met = self._early.sift(flows, waits, asked, answered)
        asked = pairing.numbered(flows, asked, met)
        flows.spoil((asked.frame.side >> 1)[asked.in_flight >= WAITING_MAX], "waiting")
        done, self._waiting = pairing.exchanges(flows, waits, asked, met)
        done, self._waiting = pairing.given_up(flows, done, self._waiting)
        counted = self._counted()
        if self._is_limited and counted.waits_size > LIMITS.waits_size:
            # The generators give up some of them, when it becomes too much for all connections together.
            flows.spoil(self._waiting.frame.side >> 1, "waiting")
            self._waiting = self._waiting.of(np.zeros(0, dtype=np.int64))
        self._left = [begun, waiting]
        spoil_waiting(flows, waiting)
        return self._part(done, counted)

    def close(self) -> Exchanges:
        """The requests that wait at the end; flows whose streams do not end with a frame are not clean."""
        flows = self.flows
        self._beginnings.close()
        self._early.close(flows)
        for left in self._left:
            flows.spoil(left.side >> 1, "cut")
        every = np.arange(2 * len(flows))
        end = np.where(flows.fin[every] >= 0, _near(flows.fin[every], flows.next[every]), flows.acked[every] - 1)
        is_short = (flows.start[every] >= 0) & (end > flows.next[every])
        flows.spoil(every[is_short] >> 1, "hole")
        clean = flows.is_clean(self._waiting.frame.side >> 1)
        return pairing.unanswered(self._waiting.of(np.nonzero(clean)[0]))

    def begun(self) -> Begun:
        """What the beginnings of flows that began before the capture have told, once it is closed."""
        return self._beginnings.begun()

    def _part(self, done: Exchanges, counted: Counted) -> Part:
        return Part(done, self._pieces.taken(), counted, self._beginnings.piece_count)

    def _counted(self) -> Counted:
        waits_size = int(self._waiting.frame.size.sum()) + _REQUEST_COST * len(self._waiting.number)
        return Counted(waits_size, self._beginnings.held_most, self._beginnings.undecided)

    def _begin(self, found: order.Pieces) -> None:
        """Look at the first bytes of flows that have none so far: a request of the side that opened the connection."""
        flow = found.side >> 1
        new = np.nonzero(self.flows.has_begun[flow] == 0)[0]
        if not len(new):
            return
        new = new[np.lexsort((found.offset[new], found.done[new], flow[new]))]
        own = flow[new]
        for index in new[np.append(True, own[1:] != own[:-1])].tolist():
            mine = int(flow[index])
            self.flows.has_begun[mine] = 1
            size = min(int(found.size[index]), _FIRST_SIZE)
            first = self._read(int(found.at[index]), size)
            is_mine = int(found.side[index]) & 1 == self.flows.opener[mine]
            if not is_mine or size < REQUEST_HEAD or is_tls(first) or not is_request(first, 0, FRAME_SIZE_MAX):
                self.flows.spoil(np.array([mine]), "not_kafka")


def _near(seq: Ints, reference: Ints) -> Ints:
    return reference + ((seq - reference + 0x80000000) & 0xFFFFFFFF) - 0x80000000
