"""The columns of messages that headers and the index tell, made for all exchanges at once."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kwire import registry
from kwire.capture.index.building.headers import flexible_from
from kwire.capture.schemas import arrow_schema
from kwire.capture.talks import address
from kwire.capture.values import Flow

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from kwire.capture.index import Index
    from kwire.capture.index.building.pairing import Exchanges
    from kwire.capture.lane.clients import Clients

    Ints = npt.NDArray[np.int64]

FLOW_COLUMNS = ("conn_id", "client_ip", "client_port", "broker_ip", "broker_port", "link")
CLIENT_COLUMNS = ("software_name", "software_version", "principal")
_ASKED = (
    *("req_packet", "req_ts", "req_end_ts", "req_bytes", "in_flight"),
    *("api_key", "api_version", "header_version", "correlation_id"),
)
_ANSWERED = ("resp_packet", "resp_ts", "resp_end_ts", "resp_bytes", "latency_us", "transfer_us", "order_ok")
COLUMNS = frozenset(
    {
        *("file", "stream_epoch", "tls", "api_name", "client_id"),
        *FLOW_COLUMNS,
        *CLIENT_COLUMNS,
        *_ASKED,
        *_ANSWERED,
    }
)


class Plain:
    """Makes these columns for one capture."""

    def __init__(self, index: Index, file: str, clients: Callable[[], Clients]) -> None:
        """`file` is what the column of that name says. `clients` are looked for only when they are asked for."""
        self._index = index
        self._clients = clients
        # Of several captures each row names the one in which it begins.
        files = (index.files if file == index.file else None) or [(0, file)]
        self._starts = np.array([start for start, _ in files], dtype=np.int64)
        self._files = pa.array([name for _, name in files], type=pa.string())
        self._of_flow: dict[str, pa.Array] = {}
        self._client_ids = pa.array(index.client_ids, type=pa.string())
        self._types = {field.name: field.type for field in arrow_schema("messages")}

    def column(self, name: str, found: Exchanges) -> pa.Array:
        """One column of these exchanges."""
        kind = self._types[name]
        if name in _ASKED:
            return _array(self._own(name, _asked(name, found)), kind)
        if name in _ANSWERED:
            return _array(self._own(name, _answered(name, found)), kind, found.response.frame.size < 0)
        if name in FLOW_COLUMNS:
            return self._flows(name).take(pa.array(found.flow))
        if name in CLIENT_COLUMNS:
            return self._client(name, found)
        if name == "client_id":
            number = found.request.client_id
            return self._client_ids.take(pa.array(np.maximum(number, 0), mask=number < 0))
        if name == "api_name":
            key, names = found.request.api_key, _api_names()
            is_beyond = (key < 0) | (key >= len(names))
            return names.take(pa.array(np.where(is_beyond, 0, key), mask=is_beyond))
        if name == "file":
            place = np.searchsorted(self._starts, found.request.frame.ts, "right") - 1
            return self._files.take(pa.array(np.maximum(place, 0)))
        return pa.repeat(pa.scalar({"stream_epoch": 0, "tls": False}[name], type=kind), len(found))

    def _own(self, name: str, values: Ints) -> Ints:
        return self._index.own_packets(values) if name in {"req_packet", "resp_packet"} else values

    def _flows(self, name: str) -> pa.Array:
        known = self._of_flow.get(name)
        if known is None:
            openers = self._index.openers.tolist()
            flows = [
                Flow(each.key, 0, each.link, max(side, 0))
                for each, side in zip(self._index.flows, openers, strict=True)
            ]
            known = self._of_flow[name] = pa.array([_of_flow(name, each) for each in flows], type=self._types[name])
        return known

    def _client(self, name: str, found: Exchanges) -> pa.Array:
        clients = self._clients()
        flow, inverse = np.unique(found.flow, return_inverse=True)
        settled = [clients.settled(each) for each in flow.tolist()]
        known_from = np.array([place for _, place in settled], dtype=np.int64)[inverse]
        values = pa.array([getattr(client, name) for client, _ in settled], type=pa.string())
        is_early = found.done < known_from
        column = values.take(pa.array(inverse, mask=is_early))
        if not (known_from < 0).any():
            return column
        place = np.where(found.response.frame.size >= 0, found.response.frame.offset, found.request.frame.offset)
        rows = zip(found.flow.tolist(), found.done.tolist(), place.tolist(), strict=True)
        return pa.array([getattr(clients.of(*row), name) for row in rows], type=pa.string())


def _asked(name: str, found: Exchanges) -> Ints:
    frame = found.request.frame
    if name == "req_packet":
        return frame.packet
    if name == "header_version":
        # The last place is the one of keys that nobody knows.
        limits = flexible_from()
        limit = limits[np.clip(found.request.api_key, -1, len(limits) - 2)]
        return np.where(found.request.api_version >= limit, 2, 1)
    if name == "req_bytes":
        return frame.size + 4
    if name in {"req_ts", "req_end_ts"}:
        return (frame.ts if name == "req_ts" else frame.end_ts) // 1000
    column: Ints = getattr(found.request, name)
    return column


def _answered(name: str, found: Exchanges) -> Ints:
    frame = found.response.frame
    if name == "resp_packet":
        return frame.packet
    if name == "resp_bytes":
        return frame.size + 4
    if name == "order_ok":
        return found.response.order_ok
    if name == "latency_us":
        return (frame.ts - found.request.frame.end_ts) // 1000
    if name == "transfer_us":
        return (frame.end_ts - frame.ts) // 1000
    return (frame.ts if name == "resp_ts" else frame.end_ts) // 1000


def _array(values: Ints, kind: pa.DataType, mask: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pa.array(values > 0, type=kind, mask=mask)
    if pa.types.is_timestamp(kind):
        return pa.array(values, type=pa.int64(), mask=mask).view(kind)
    if mask is not None:
        values = np.where(mask, 0, values)
    return pa.array(values.astype(kind.to_pandas_dtype()), type=kind, mask=mask)


def _of_flow(name: str, flow: Flow) -> Any:
    from kwire.capture.rows import conn_id

    if name == "conn_id":
        return conn_id(flow)
    if name == "link":
        return flow.link
    side = flow.client_side if name.startswith("client") else 1 - flow.client_side
    ip, port = flow.ends[side]
    return address(ip) if name.endswith("_ip") else port


@cache
def _api_names() -> pa.Array:
    """The name of each API by its key."""
    names: list[str | None] = [None] * (max(registry.API_KEYS) + 1)
    for key in registry.API_KEYS:
        names[key] = registry.api_name(key)
    return pa.array(names, type=pa.string())
