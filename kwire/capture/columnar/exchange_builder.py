"""Build exchanges as objects, for rows that columns cannot represent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.columnar.clients import completing_places
from kwire.capture.index.flows.message_columns import DROPPED, DUPLICATE, EXPIRED, TOKEN
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.exchange_pairing import (
    NO_RESPONSE_REASONS,
    add_duplicate_issue,
    make_token_request,
    make_token_response,
)
from kwire.capture.kafka.message_decoder import MessageDecoder
from kwire.capture.model import Flow, Frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.columnar.body_reader import BodyReader
    from kwire.capture.columnar.clients import ClientMap
    from kwire.capture.index import Index
    from kwire.capture.index.flows.frame_columns import FrameColumns
    from kwire.capture.index.flows.message_columns import ExchangeColumns

# Where the response and the exchange begin in a row of columns.
_REQUEST, _RESPONSE = 9, 18


class ExchangeBuilder:
    """Builds exchanges, with their bodies decoded. flow_numbers: the numbers of the flows that were built."""

    def __init__(self, index: Index, decoder: MessageDecoder, bodies: BodyReader, clients: ClientMap) -> None:
        """For one capture."""
        self._index = index
        self._decoder = decoder
        self._bodies = bodies
        self._clients = clients
        self._flows: dict[int, Flow] = {}
        self.flow_numbers: dict[Flow, int] = {}

    def build_exchanges(self, exchanges: ExchangeColumns) -> Iterator[tuple[int, Exchange]]:
        """Each exchange with the number of the packet that completed it."""
        request, response = exchanges.request, exchanges.response
        columns = [*self._with_file_packets(request.frame), *self._with_file_packets(response.frame)]
        columns += [exchanges.flow, *completing_places(exchanges), request.number, request.in_flight]
        columns += [request.expects_response, response.order_ok, request.marks]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for row, completed_by in zip(rows, exchanges.completed_by.tolist(), strict=True):
            yield completed_by, self._build_exchange(row)

    def _build_exchange(self, row: tuple[int, ...]) -> Exchange:
        number, moment, offset, count, in_flight, expects_response, order_ok, marks = row[_RESPONSE:]
        flow, client = self.build_flow(number), self._clients.client_at(number, moment, offset)
        if row[5] < 0:
            # The request was not captured.
            frame = self._read_frame(flow, row[_REQUEST:_RESPONSE], is_request=False)
            return Exchange(flow, client, None, self._decoder.decode_response(frame, None))
        frame = self._read_frame(flow, row[:_REQUEST], is_request=True)
        if marks & TOKEN:
            request = make_token_request(frame, self._clients.mechanism_at(number, row[8], row[4]))
        else:
            request = self._decoder.decode_request(frame)
        request.number, request.in_flight, request.expects_response = count, in_flight, bool(expects_response)
        if marks & DUPLICATE:
            add_duplicate_issue(request)
        response = None
        if row[_REQUEST + 5] >= 0:
            frame = self._read_frame(flow, row[_REQUEST:_RESPONSE], is_request=False)
            if marks & TOKEN:
                response = make_token_response(frame)
            else:
                response = self._decoder.decode_response(frame, request)
                response.order_ok = bool(order_ok)
        elif expects_response:
            request.add_issue("no_response", NO_RESPONSE_REASONS[self._missing_reason(number, marks)])
        return Exchange(flow, client, request, response)

    def _missing_reason(self, number: int, marks: int) -> str:
        """Why a request of a flow has no response, as a key of `NO_RESPONSE_REASONS`."""
        if marks & (DROPPED | EXPIRED):
            return "many" if marks & DROPPED else "expired"
        return self._index.flow(number).end_reason

    def _with_file_packets(self, frames: FrameColumns) -> FrameColumns:
        return frames._replace(packet=self._index.file_packet_numbers(frames.packet))

    def _read_frame(self, flow: Flow, row: tuple[int, ...], *, is_request: bool) -> Frame:
        _, packet, ts, end_ts, offset, size, at, fragment_count, _ = row
        data = self._bodies.read_frame(at, fragment_count, size)
        damage = self._bodies.find_damage(at, fragment_count, size) if len(data) < size else None
        return Frame(flow, is_request, ts, end_ts, offset, size, data, damage[0] if damage else None, packet)

    def forget(self, flows: Iterable[int]) -> None:
        """Drop these flows, which are not read again."""
        for number in flows:
            self._flows.pop(number, None)

    def build_flow(self, number: int) -> Flow:
        """A flow by its number."""
        flow = self._flows.get(number)
        if flow is None:
            info, opener = self._index.flow(number), self._index.opener(number)
            flow = Flow(info.key, info.epoch, info.link, opener, opener, starts_known=[True, True], kind="kafka")
            flow.is_tls = number in self._index.tls_flows
            self._flows[number] = flow
            self.flow_numbers[flow] = number
        return flow
