"""Phase 1: one pass over a capture, a span at a time; what is kept are columns of numbers, and no payload."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.exchange import HELD_SIZE_MAX, WAITING_MAX
from kwire.capture.halves import PATIENCE
from kwire.capture.index import order, pairing
from kwire.capture.index.files import File
from kwire.capture.index.flows import Flows
from kwire.capture.index.headers import Headers
from kwire.capture.index.heads import HeadPass, Heads
from kwire.capture.index.hop import Frames, Parts, frames
from kwire.capture.index.pairing import Exchanges
from kwire.capture.index.spans import Span, Walked
from kwire.capture.index.walk import spans
from kwire.capture.looking import REQUEST_HEAD, is_request, is_tls
from kwire.capture.options import FRAME_SIZE_MAX
from kwire.capture.reassembly import OPEN_MAX
from kwire.capture.values import Trouble

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

# As much of a connection's first packet as the generators look at.
_FIRST_SIZE = 4 * REQUEST_HEAD


class Part(NamedTuple):
    """What the index keeps of one span: its packets, each with its flow, and the exchanges that it completes.

    piece_at, piece_size: the pieces of those bodies that lie in several.
    """

    heads: Heads
    flow: Ints
    exchanges: Exchanges
    piece_at: Ints
    piece_size: Ints


class Built(NamedTuple):
    """What the pass leaves behind. spans, secrets: offset and size in the file."""

    spans: list[tuple[int, int]]
    unanswered: Exchanges
    flows: Flows
    client_ids: list[str]
    troubles: list[tuple[int, Trouble]]
    secrets: list[tuple[int, int]]
    may_have_secrets: bool
    packet_count: int
    loose: list[bytes]
    first_ts: int
    last_ts: int


def build(source: str | os.PathLike[str] | bytes, file: File, keep: Callable[[Part], None]) -> Built:
    """Read the file once; `keep` takes what each span adds.

    Raises: NotIndexed when it is packed or has blocks that only the exact reader takes; CaptureError.
    """
    walked, passing, extents = Walked(), HeadPass(), list[tuple[int, int]]()
    builder = _Builder(file)
    first_ts, last_ts = 2**63 - 1, 0
    for span in spans(file, source, walked):
        first_ts, last_ts = min(first_ts, int(span.ts.min())), max(last_ts, int(span.ts.max()))
        extents.append((span.base, len(span.data)))
        keep(builder.part(span, passing.heads(span)))
    unanswered = builder.close()
    passing.troubles += [(walked.packet_count, each) for each in walked.troubles]
    passing.close(walked.packet_count)
    return Built(
        extents,
        unanswered,
        builder.flows,
        builder.headers.client_ids.texts,
        passing.troubles,
        walked.secrets,
        walked.may_have_secrets,
        walked.packet_count,
        passing.loose,
        first_ts if walked.packet_count else 0,
        last_ts,
    )


class _Builder:
    """What goes from span to span."""

    def __init__(self, file: File) -> None:
        self.flows = Flows()
        self.pieces = Parts()
        self.headers = Headers(self.flows, file.read, self.pieces)
        self._file = file
        self._left: list[order.Pieces] = [order.NO_PIECES]
        nothing = np.zeros(0, dtype=np.int64)
        self._waiting = pairing.Asked(Frames(*[nothing] * 9), *[nothing] * 8)

    def part(self, span: Span, heads: Heads) -> Part:
        """What one span adds."""
        flows = self.flows
        flow = flows.ids(heads.ends)
        if not len(flow):
            return Part(heads, flow, pairing.unanswered(self._waiting.of(flow)), *self.pieces.taken())
        arrival = order.count_in(flows, flow, heads)
        order.control(flows, flow, heads)
        found = order.joined([*self._left, order.pieces_of(flows, flow, heads, arrival)])
        found, waiting = order.in_order(flows, found)
        self._begin(found)
        complete, begun = frames(flows, found, span, self._file.read, self.pieces)
        asked, answered = self.headers.split(complete, span.base, span.data)
        asked = pairing.numbered(flows, asked, answered)
        flows.spoil((asked.frame.side >> 1)[asked.in_flight >= WAITING_MAX], "waiting")
        done, self._waiting = pairing.exchanges(flows, self._waiting, asked, answered)
        done, self._waiting = pairing.given_up(flows, done, self._waiting)
        if int(self._waiting.frame.size.sum()) + 2000 * len(self._waiting.number) > HELD_SIZE_MAX // 2:
            # The generators give up some of them, when it becomes too much for all connections together.
            flows.spoil(self._waiting.frame.side >> 1, "waiting")
            self._waiting = self._waiting.of(np.zeros(0, dtype=np.int64))
        self._left = [begun, waiting]
        self._late(waiting)
        return Part(heads, flow, done, *self.pieces.taken())

    def close(self) -> Exchanges:
        """The requests that wait at the end; flows whose streams do not end with a frame are not clean."""
        flows = self.flows
        for left in self._left:
            flows.spoil(left.side >> 1, "cut")
        every = np.arange(2 * len(flows))
        end = np.where(flows.fin[every] >= 0, _near(flows.fin[every], flows.next[every]), flows.acked[every] - 1)
        is_short = (flows.start[every] >= 0) & (end > flows.next[every])
        flows.spoil(every[is_short] >> 1, "hole")
        if len(flows) > OPEN_MAX:
            flows.spoil(np.arange(len(flows)), "many")
        clean = flows.is_clean(self._waiting.frame.side >> 1)
        return pairing.unanswered(self._waiting.of(np.nonzero(clean)[0]))

    def _late(self, waiting: order.Pieces) -> None:
        """Holes that reassembly has given up by now."""
        flow = waiting.side >> 1
        self.flows.spoil(flow[self.flows.packets[flow] - waiting.arrival >= PATIENCE], "disorder")

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
            first = self._file.read(int(found.at[index]), size)
            is_mine = int(found.side[index]) & 1 == self.flows.opener[mine]
            if not is_mine or size < REQUEST_HEAD or is_tls(first) or not is_request(first, 0, FRAME_SIZE_MAX):
                self.flows.spoil(np.array([mine]), "not_kafka")


def _near(seq: Ints, reference: Ints) -> Ints:
    return reference + ((seq - reference + 0x80000000) & 0xFFFFFFFF) - 0x80000000
