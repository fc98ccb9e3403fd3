"""Exchanges of clean flows as the values that the generators make: for rows that no column of numbers can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.bodies import Decoder
from kwire.capture.exchange import ENDED, Exchange
from kwire.capture.index.building.flows import ENDED as ENDS
from kwire.capture.values import Flow, Frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.index import Index
    from kwire.capture.index.building.hop import Frames
    from kwire.capture.index.building.pairing import Exchanges
    from kwire.capture.lane.bodies import Bodies
    from kwire.capture.lane.clients import Clients

_REQUEST, _RESPONSE = 9, 18


class Objects:
    """Makes them, with their bodies decoded."""

    def __init__(self, index: Index, decoder: Decoder, bodies: Bodies, clients: Clients) -> None:
        """Of one capture."""
        self._index = index
        self._decoder = decoder
        self._bodies = bodies
        self._clients = clients
        self._flows: dict[int, Flow] = {}

    def exchanges(self, found: Exchanges) -> Iterator[tuple[int, Exchange]]:
        """Each with the number of the packet with which it was complete."""
        columns = [*self._own(found.request.frame), *self._own(found.response.frame)]
        columns += [found.flow, found.done, found.request.number, found.request.in_flight, found.request.wants_answer]
        columns.append(found.response.order_ok)
        for row in zip(*(column.tolist() for column in columns), strict=True):
            yield row[19], self._exchange(row)

    def _exchange(self, row: tuple[int, ...]) -> Exchange:
        number, done, count, in_flight, wants_answer, order_ok = row[_RESPONSE:]
        flow = self.flow(number)
        if row[5] < 0:
            # It was asked for before the capture began.
            response = self._decoder.response(self._frame(flow, row[_REQUEST:_RESPONSE], is_request=False), None)
            return Exchange(flow, self._clients.of(number, done, row[_REQUEST + 4]), None, response)
        request = self._decoder.request(self._frame(flow, row[:_REQUEST], is_request=True))
        request.number, request.in_flight, request.wants_answer = count, in_flight, bool(wants_answer)
        answer = None
        place = row[4]
        if row[_REQUEST + 5] >= 0:
            answer = self._decoder.response(self._frame(flow, row[_REQUEST:_RESPONSE], is_request=False), request)
            answer.order_ok = bool(order_ok)
            place = row[_REQUEST + 4]
        elif wants_answer:
            why = ENDS[int(self._index.columns["flow.ended"][number])]
            request.note("no_response", ENDED[why])
        return Exchange(flow, self._clients.of(number, done, place), request, answer)

    def _own(self, frames: Frames) -> Frames:
        return frames._replace(packet=self._index.own_packets(frames.packet))

    def _frame(self, flow: Flow, row: tuple[int, ...], *, is_request: bool) -> Frame:
        _, packet, ts, end_ts, offset, size, at, parts, _ = row
        data = self._bodies.frame(at, parts, size)
        return Frame(flow, is_request, ts, end_ts, offset, size, data, None, packet)

    def flow(self, number: int) -> Flow:
        """A flow by its number."""
        found = self._flows.get(number)
        if found is None:
            info = self._index.flows[number]
            opener = int(self._index.openers[number])
            found = self._flows[number] = Flow(
                info.key, 0, info.link, opener, opener, starts_known=[True, True], kind="kafka"
            )
        return found
