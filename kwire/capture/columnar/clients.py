"""Find the clients of flows: the few requests that identify a client are decoded first, flow by flow."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.kafka.exchange import Client
from kwire.capture.kafka.exchange_pairing import IDENTIFYING_API_KEYS
from kwire.capture.kafka.message_decoder import API_VERSIONS, MessageDecoder
from kwire.capture.kafka.sasl import find_principal
from kwire.capture.model import Flow, Frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.columnar.body_reader import BodyReader
    from kwire.capture.index import Index
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.frame_columns import FrameColumns
    from kwire.capture.index.flows.message_columns import ExchangeColumns

_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_CORRELATION_ID_SIZE = 4
_NO_CLIENT = Client()
_NO_FLOW = Flow(((b"", 0), (b"", 0)), 0, "")


class ClientMap:
    """The client of each flow: what is known of it, from which position of the capture on."""

    def __init__(self, index: Index, chosen: Bools, decoder: MessageDecoder, bodies: BodyReader) -> None:
        """Search the exchanges of the chosen flows."""
        self._decoder = decoder
        self._bodies = bodies
        self._positions: dict[int, list[tuple[int, int]]] = {}
        self._clients: dict[int, list[Client]] = {}
        identifying: dict[int, list[_IdentifyingExchange]] = {}
        for part in (*range(len(index.spans)), -1):
            exchanges = index.read_exchanges(part)
            is_identifying = np.isin(exchanges.request.api_key, IDENTIFYING_API_KEYS) & chosen[exchanges.flow]
            for flow, row in _exchange_rows(exchanges.select(np.nonzero(is_identifying)[0])):
                identifying.setdefault(flow, []).append(row)
        for flow, rows in identifying.items():
            self._track_client(flow, sorted(rows))

    def client_at(self, flow: int, completed_by: int, offset: int) -> Client:
        """What is known of the client of a flow at a packet, as of `completing_packets`.

        Args: offset: of the request of an exchange, or of its response if that is larger.
        """
        positions = self._positions.get(flow)
        if positions is None:
            return _NO_CLIENT
        at = bisect_right(positions, (completed_by, offset)) - 1
        return self._clients[flow][at] if at >= 0 else _NO_CLIENT

    def single_client(self, flow: int) -> tuple[Client, int]:
        """The first client of a flow, and the packet from which on it is known; -1 if the client changes."""
        clients = self._clients.get(flow)
        if clients is None:
            return _NO_CLIENT, 0
        return clients[0], self._positions[flow][0][0] if len(clients) == 1 else -1

    def _track_client(self, flow: int, rows: list[_IdentifyingExchange]) -> None:
        client, mechanism = Client(), None
        for position, api_key, request_range, response_range, response_packet in rows:
            request = self._decoder.decode_request(self._read_frame(request_range, is_request=True))
            body = request.body
            if body is None:
                continue
            if api_key == _SASL_HANDSHAKE:
                mechanism = getattr(body, "mechanism", None)
            elif api_key == API_VERSIONS and request.version >= 3:
                name, version = getattr(body, "client_software_name", ""), getattr(body, "client_software_version", "")
                client = replace(client, software_name=name or None, software_version=version or None)
                self._add_client(flow, position, client)
            elif api_key == _SASL_AUTHENTICATE and response_range.size >= 0:
                response = self._decoder.decode_response(self._read_frame(response_range, is_request=False), request)
                principal = find_principal(mechanism, bytes(getattr(body, "auth_bytes", b"")))
                if principal is not None and getattr(response.body, "error_code", 1) == 0:
                    client = replace(client, principal=principal)
                    self._add_client(flow, (response_packet, 0), client)

    def _add_client(self, flow: int, position: tuple[int, int], client: Client) -> None:
        clients = self._clients.setdefault(flow, [])
        if not clients or clients[-1] != client:
            self._positions.setdefault(flow, []).append(position)
            clients.append(client)

    def _read_frame(self, frame_range: _FrameRange, *, is_request: bool) -> Frame:
        data = self._bodies.read_frame(*frame_range)
        damage = self._bodies.find_damage(*frame_range) if len(data) < frame_range.size else None
        return Frame(_NO_FLOW, is_request, 0, 0, 0, frame_range.size, data, damage[0] if damage else None)


def completing_packets(exchanges: ExchangeColumns) -> Ints:
    """The packet that completed each exchange, also where the client side was found later (`completed_by`)."""
    request, response = exchanges.request.frame, exchanges.response.frame
    is_paired = (request.size >= 0) & (response.size >= 0)
    # Without a correlation id a response waits for no request.
    is_alone = is_paired | ((request.size < 0) & (response.size < _CORRELATION_ID_SIZE))
    return np.where(is_alone, np.maximum(request.completed_by, response.completed_by), exchanges.completed_by)


class _FrameRange(NamedTuple):
    """Where the bytes of a frame are; the size is -1 if it was not captured."""

    at: int
    fragment_count: int
    size: int


class _IdentifyingExchange(NamedTuple):
    """An exchange that may identify the client, by its position: the packet that completed the request, its offset."""

    position: tuple[int, int]
    api_key: int
    request: _FrameRange
    response: _FrameRange
    completed_by: int


def _exchange_rows(exchanges: ExchangeColumns) -> Iterator[tuple[int, _IdentifyingExchange]]:
    """Each exchange with its flow."""
    request, response = exchanges.request.frame, exchanges.response.frame
    positions = zip(request.completed_by.tolist(), request.offset.tolist(), strict=True)
    keys, completed_by = exchanges.request.api_key.tolist(), exchanges.completed_by.tolist()
    rows = zip(positions, keys, _frame_ranges(request), _frame_ranges(response), completed_by, strict=True)
    return zip(exchanges.flow.tolist(), map(_IdentifyingExchange._make, rows), strict=True)


def _frame_ranges(frames: FrameColumns) -> Iterator[_FrameRange]:
    return map(_FrameRange, frames.at.tolist(), frames.fragment_count.tolist(), frames.size.tolist())
