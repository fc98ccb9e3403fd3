"""Find the clients of flows: the few requests that identify a client are decoded first, flow by flow."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.index.flows.message_columns import TOKEN
from kwire.capture.kafka.exchange import Client
from kwire.capture.kafka.exchange_pairing import IDENTIFYING_API_KEYS
from kwire.capture.kafka.message_decoder import API_VERSIONS, MessageDecoder
from kwire.capture.kafka.sasl import find_principal
from kwire.capture.model import Flow, Frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.columnar.body_reader import BodyReader
    from kwire.capture.columnar.flow_selection import FlowSelection
    from kwire.capture.index.arrays import Ints
    from kwire.capture.index.flows.frame_columns import FrameColumns
    from kwire.capture.index.flows.message_columns import ExchangeColumns

_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_NO_CLIENT = Client()
_NO_FLOW = Flow(((b"", 0), (b"", 0)), 0, "")


@dataclass(slots=True)
class KnownClients:
    """What is known of the clients, by flow: the places from which on it is known, and the SASL mechanisms."""

    positions: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    clients: dict[int, list[Client]] = field(default_factory=dict)
    mechanisms: dict[int, list[tuple[tuple[int, int], str]]] = field(default_factory=dict)

    def forget(self, flows: Iterable[int]) -> None:
        """Drop what is known of these flows."""
        for flow in flows:
            for column in (self.positions, self.clients, self.mechanisms):
                column.pop(flow, None)


class ClientMap:
    """The client of each flow: what is known of it, from which position of the capture on."""

    def __init__(self, selection: FlowSelection, decoder: MessageDecoder, bodies: BodyReader) -> None:
        """There are none yet. Args: selection: the flows that are read."""
        self._selection = selection
        self._decoder = decoder
        self._bodies = bodies
        self.known = KnownClients()

    def add_exchanges(self, parts: Iterable[ExchangeColumns]) -> None:
        """Find the clients that these exchanges show, and those before."""
        identifying: dict[int, list[_IdentifyingExchange]] = {}
        for exchanges in parts:
            request = exchanges.request
            is_identifying = np.isin(request.api_key, IDENTIFYING_API_KEYS) | ((request.marks & TOKEN) > 0)
            rows = np.nonzero(is_identifying)[0]
            rows = rows[self._selection.includes(exchanges.flow[rows])]
            for flow, row in _exchange_rows(exchanges.select(rows)):
                identifying.setdefault(flow, []).append(row)
        for flow, found in identifying.items():
            self._track_client(flow, sorted(found))

    def client_at(self, flow: int, moment: int, offset: int) -> Client:
        """What is known of the client of a flow at a place, as of `completing_places`."""
        positions = self.known.positions.get(flow)
        if positions is None:
            return _NO_CLIENT
        at = bisect_right(positions, (moment, offset)) - 1
        return self.known.clients[flow][at] if at >= 0 else _NO_CLIENT

    def mechanism_at(self, flow: int, moment: int, offset: int) -> str | None:
        """The SASL mechanism that a flow names before the request at a place."""
        mechanisms = self.known.mechanisms.get(flow, [])
        at = bisect_left(mechanisms, (moment, offset), key=itemgetter(0)) - 1
        return mechanisms[at][1] if at >= 0 else None

    def single_client(self, flow: int) -> tuple[Client, tuple[int, int]]:
        """The first client of a flow, and the place from which on it is known; (-1, -1) if the client changes."""
        clients = self.known.clients.get(flow)
        if clients is None:
            return _NO_CLIENT, (0, 0)
        return clients[0], self.known.positions[flow][0] if len(clients) == 1 else (-1, -1)

    def _track_client(self, flow: int, rows: list[_IdentifyingExchange]) -> None:
        client = self.known.clients[flow][-1] if flow in self.known.clients else _NO_CLIENT
        mechanism = self.known.mechanisms[flow][-1][1] if flow in self.known.mechanisms else None
        for position, api_key, request_range, response_range, completing_place in rows:
            frame = self._read_frame(request_range, is_request=True)
            if api_key < 0:
                # A token.
                principal = find_principal(mechanism, frame.data)
                if principal is not None:
                    client = replace(client, principal=principal)
                    self._add_client(flow, position, client)
                continue
            request = self._decoder.decode_request(frame)
            body = request.body
            if body is None:
                continue
            if api_key == _SASL_HANDSHAKE:
                mechanism = str(getattr(body, "mechanism", ""))
                found = self.known.mechanisms.setdefault(flow, [])
                # A request is found again with its response.
                found += [(position, mechanism)] if (position, mechanism) not in found[-1:] else []
            elif api_key == API_VERSIONS and request.version >= 3:
                name, version = getattr(body, "client_software_name", ""), getattr(body, "client_software_version", "")
                client = replace(client, software_name=name or None, software_version=version or None)
                self._add_client(flow, position, client)
            elif api_key == _SASL_AUTHENTICATE and response_range.size >= 0:
                response = self._decoder.decode_response(self._read_frame(response_range, is_request=False), request)
                principal = find_principal(mechanism, bytes(getattr(body, "auth_bytes", b"")))
                if principal is not None and getattr(response.body, "error_code", 1) == 0:
                    client = replace(client, principal=principal)
                    self._add_client(flow, completing_place, client)

    def _add_client(self, flow: int, position: tuple[int, int], client: Client) -> None:
        clients = self.known.clients.setdefault(flow, [])
        if not clients or clients[-1] != client:
            self.known.positions.setdefault(flow, []).append(position)
            clients.append(client)

    def _read_frame(self, frame_range: _FrameRange, *, is_request: bool) -> Frame:
        data = self._bodies.read_frame(*frame_range)
        damage = self._bodies.find_damage(*frame_range) if len(data) < frame_range.size else None
        return Frame(_NO_FLOW, is_request, 0, 0, 0, frame_range.size, data, damage[0] if damage else None)


def completing_places(exchanges: ExchangeColumns) -> tuple[Ints, Ints]:
    """The place at which each exchange was complete, which orders those of one connection: a moment and an offset.

    Where the client side was found later, this is before `ExchangeColumns.completed_by`.
    """
    request, response = exchanges.request.frame, exchanges.response.frame
    offset = np.where(response.completed_by >= request.completed_by, response.offset, request.offset)
    return np.maximum(request.completed_by, response.completed_by), offset


class _FrameRange(NamedTuple):
    """Where the bytes of a frame are; the size is -1 if it was not captured."""

    at: int
    fragment_count: int
    size: int


class _IdentifyingExchange(NamedTuple):
    """An exchange that may identify the client, by its position: when the request was complete, and its offset."""

    position: tuple[int, int]
    api_key: int
    request: _FrameRange
    response: _FrameRange
    completing_place: tuple[int, int]


def _exchange_rows(exchanges: ExchangeColumns) -> Iterator[tuple[int, _IdentifyingExchange]]:
    """Each exchange with its flow."""
    request, response = exchanges.request.frame, exchanges.response.frame
    positions = zip(request.completed_by.tolist(), request.offset.tolist(), strict=True)
    moments, offsets = completing_places(exchanges)
    places = zip(moments.tolist(), offsets.tolist(), strict=True)
    keys = exchanges.request.api_key.tolist()
    rows = zip(positions, keys, _frame_ranges(request), _frame_ranges(response), places, strict=True)
    return zip(exchanges.flow.tolist(), map(_IdentifyingExchange._make, rows), strict=True)


def _frame_ranges(frames: FrameColumns) -> Iterator[_FrameRange]:
    return map(_FrameRange, frames.at.tolist(), frames.fragment_count.tolist(), frames.size.tolist())
