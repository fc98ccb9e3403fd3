"""Who the clients are: the few requests that tell of them are decoded beforehand, flow by flow."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.bodies import API_VERSIONS, Decoder
from kwire.capture.exchange import Client
from kwire.capture.sasl import principal_of
from kwire.capture.values import Flow, Frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kwire.capture.index import Index
    from kwire.capture.index.building.pairing import Exchanges
    from kwire.capture.lane.bodies import Bodies

_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_TELLING = (_SASL_HANDSHAKE, API_VERSIONS, _SASL_AUTHENTICATE)
_NOBODY = Client()
_NOWHERE = Flow(((b"", 0), (b"", 0)), 0, "")


class Clients:
    """What is known of the client of each flow, by the place in the capture from which on it is known."""

    def __init__(self, index: Index, chosen: npt.NDArray[np.bool_], decoder: Decoder, bodies: Bodies) -> None:
        """Looks through the exchanges of the chosen flows."""
        self._decoder = decoder
        self._bodies = bodies
        self._places: dict[int, list[tuple[int, int]]] = {}
        self._clients: dict[int, list[Client]] = {}
        found: dict[int, list[tuple[tuple[int, int], tuple[int, ...]]]] = {}
        for part in (*range(len(index.spans)), -1):
            exchanges = index.exchanges(part)
            mine = np.nonzero(np.isin(exchanges.request.api_key, _TELLING) & chosen[exchanges.flow])[0]
            for flow, place, row in _rows(exchanges.of(mine)):
                found.setdefault(flow, []).append((place, row))
        for flow, rows in found.items():
            self._follow(flow, sorted(rows))

    def of(self, flow: int, done: int, offset: int) -> Client:
        """The client of a flow as it was known when an exchange was complete."""
        places = self._places.get(flow)
        if places is None:
            return _NOBODY
        at = bisect_right(places, (done, offset)) - 1
        return self._clients[flow][at] if at >= 0 else _NOBODY

    def settled(self, flow: int) -> tuple[Client, int]:
        """The first client of a flow, and from which packet on it is known; -1 where there are several."""
        clients = self._clients.get(flow)
        if clients is None:
            return _NOBODY, 0
        return clients[0], self._places[flow][0][0] if len(clients) == 1 else -1

    def _follow(self, flow: int, rows: list[tuple[tuple[int, int], tuple[int, ...]]]) -> None:
        client, mechanism = Client(), None
        for place, (api_key, at, parts, size, answer_at, answer_parts, answer_size, answer_done, _) in rows:
            request = self._decoder.request(self._frame(at, parts, size, is_request=True))
            body = request.body
            if body is None:
                continue
            if api_key == _SASL_HANDSHAKE:
                mechanism = getattr(body, "mechanism", None)
            elif api_key == API_VERSIONS and request.version >= 3:
                name, version = getattr(body, "client_software_name", ""), getattr(body, "client_software_version", "")
                client = replace(client, software_name=name or None, software_version=version or None)
                self._add(flow, place, client)
            elif api_key == _SASL_AUTHENTICATE and answer_size >= 0:
                frame = self._frame(answer_at, answer_parts, answer_size, is_request=False)
                response = self._decoder.response(frame, request)
                principal = principal_of(mechanism, bytes(getattr(body, "auth_bytes", b"")))
                if principal is not None and getattr(response.body, "error_code", 1) == 0:
                    client = replace(client, principal=principal)
                    self._add(flow, (answer_done, 0), client)

    def _add(self, flow: int, place: tuple[int, int], client: Client) -> None:
        clients = self._clients.setdefault(flow, [])
        if not clients or clients[-1] != client:
            self._places.setdefault(flow, []).append(place)
            clients.append(client)

    def _frame(self, at: int, parts: int, size: int, *, is_request: bool) -> Frame:
        return Frame(_NOWHERE, is_request, 0, 0, 0, size, self._bodies.frame(at, parts, size), None)


def _rows(found: Exchanges) -> Iterator[tuple[int, tuple[int, int], tuple[int, ...]]]:
    """Flow, place and numbers of each exchange."""
    asked, answered = found.request.frame, found.response.frame
    columns = (
        found.request.api_key,
        asked.at,
        asked.parts,
        asked.size,
        answered.at,
        answered.parts,
        answered.size,
        found.done,
        asked.done,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for flow, done, offset, row in zip(
        found.flow.tolist(), asked.done.tolist(), asked.offset.tolist(), rows, strict=True
    ):
        yield flow, (done, offset), row
