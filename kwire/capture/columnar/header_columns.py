"""Build the columns of messages that depend on headers and on the index, for all exchanges at once."""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kwire import registry
from kwire.capture.columnar.clients import completing_packets
from kwire.capture.index.flows.frame_headers import first_flexible_versions
from kwire.capture.model import Flow, connection_id, format_address
from kwire.capture.rows.columns import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.capture.columnar.clients import ClientMap
    from kwire.capture.index import Index
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns

NO_TIME = -(2**63)
"""The time of a missing frame: earlier than any time in a capture."""

FLOW_COLUMNS = ("conn_id", "client_ip", "client_port", "broker_ip", "broker_port", "link")
CLIENT_COLUMNS = ("software_name", "software_version", "principal")
_REQUEST_COLUMNS = (
    *("req_packet", "req_ts", "req_end_ts", "req_bytes", "in_flight"),
    *("api_key", "api_version", "header_version", "correlation_id"),
)
_RESPONSE_COLUMNS = ("resp_packet", "resp_ts", "resp_end_ts", "resp_bytes", "latency_us", "transfer_us", "order_ok")
_OTHER_COLUMNS = ("file", "stream_epoch", "tls", "api_name", "client_id")
COLUMNS = frozenset(_OTHER_COLUMNS + FLOW_COLUMNS + CLIENT_COLUMNS + _REQUEST_COLUMNS + _RESPONSE_COLUMNS)


class HeaderColumns:
    """Builds the header columns of one capture."""

    def __init__(self, index: Index, file: str, clients: Callable[[], ClientMap]) -> None:
        """`file`: the value of the column of that name. `clients`: called only when a client column is built."""
        self._index = index
        self._clients = clients
        # In a series of files, a row has the name of the file in which it begins.
        files = (index.file_starts if file == index.file else None) or [(0, file)]
        self._starts = np.array([start for start, _ in files], dtype=np.int64)
        self._file_names = [name for _, name in files]
        self._flow_arrays: dict[str, pa.Array] = {}
        self._client_ids = pa.array(index.client_ids, type=pa.string())
        self._types = {field.name: field.type for field in arrow_schema("messages")}

    def build_column(self, name: str, exchanges: ExchangeColumns) -> pa.Array:
        """One column of these exchanges."""
        kind = self._types[name]
        if name in _REQUEST_COLUMNS:
            return _to_array(self._convert_packets(name, _request_column(name, exchanges)), kind)
        if name in _RESPONSE_COLUMNS:
            values = self._convert_packets(name, _response_column(name, exchanges))
            return _to_array(values, kind, exchanges.response.frame.size < 0)
        if name in FLOW_COLUMNS:
            return self._flow_column(name).take(pa.array(exchanges.flow))
        if name in CLIENT_COLUMNS:
            return self._client_column(name, exchanges)
        if name == "client_id":
            number = exchanges.request.client_id
            return self._client_ids.take(pa.array(np.maximum(number, 0), mask=number < 0))
        if name == "api_name":
            key, names = exchanges.request.api_key, _api_names()
            is_unknown = (key < 0) | (key >= len(names))
            return names.take(pa.array(np.where(is_unknown, 0, key), mask=is_unknown))
        if name == "file":
            return self.file_column(exchanges.request.frame.ts)
        return pa.repeat(pa.scalar({"stream_epoch": 0, "tls": False}[name], type=kind), len(exchanges))

    def file_column(self, ts: Ints) -> pa.Array:
        """The column `file` of rows that begin at these times, in nanoseconds."""
        file_number = np.searchsorted(self._starts, ts, "right") - 1
        return self._files.take(pa.array(np.maximum(file_number, 0)))

    @cached_property
    def _files(self) -> pa.Array:
        # Arrow has no names that are not valid UTF-8: those fail only if the column is used.
        return pa.array(self._file_names, type=pa.string())

    def _convert_packets(self, name: str, values: Ints) -> Ints:
        return self._index.file_packet_numbers(values) if name in {"req_packet", "resp_packet"} else values

    def _flow_column(self, name: str) -> pa.Array:
        array = self._flow_arrays.get(name)
        if array is None:
            infos = zip(self._index.flows, self._index.openers.tolist(), strict=True)
            values = [_flow_value(name, Flow(info.key, 0, info.link, max(side, 0))) for info, side in infos]
            array = self._flow_arrays[name] = pa.array(values, type=self._types[name])
        return array

    def _client_column(self, name: str, exchanges: ExchangeColumns) -> pa.Array:
        clients = self._clients()
        flow, inverse = np.unique(exchanges.flow, return_inverse=True)
        clients_of_flows = [clients.single_client(number) for number in flow.tolist()]
        known_from = np.array([packet for _, packet in clients_of_flows], dtype=np.int64)[inverse]
        values = pa.array([getattr(client, name) for client, _ in clients_of_flows], type=pa.string())
        completed_by = completing_packets(exchanges)
        is_early = completed_by < known_from
        column = values.take(pa.array(inverse, mask=is_early))
        if not (known_from < 0).any():
            return column
        response = exchanges.response.frame
        offset = np.where(response.size >= 0, response.offset, exchanges.request.frame.offset)
        rows = zip(exchanges.flow.tolist(), completed_by.tolist(), offset.tolist(), strict=True)
        return pa.array([getattr(clients.client_at(*row), name) for row in rows], type=pa.string())


def _request_column(name: str, exchanges: ExchangeColumns) -> Ints:
    frame = exchanges.request.frame
    if name == "req_packet":
        return frame.packet
    if name == "header_version":
        # The last item is for unknown API keys.
        limits = first_flexible_versions()
        limit = limits[np.clip(exchanges.request.api_key, -1, len(limits) - 2)]
        return np.where(exchanges.request.api_version >= limit, 2, 1)
    if name == "req_bytes":
        return frame.size + 4
    if name in {"req_ts", "req_end_ts"}:
        return (frame.ts if name == "req_ts" else frame.end_ts) // 1000
    column: Ints = getattr(exchanges.request, name)
    return column


def _response_column(name: str, exchanges: ExchangeColumns) -> Ints:
    frame = exchanges.response.frame
    if name == "resp_packet":
        return frame.packet
    if name == "resp_bytes":
        return frame.size + 4
    if name == "order_ok":
        return exchanges.response.order_ok
    if name == "latency_us":
        return (frame.ts - exchanges.request.frame.end_ts) // 1000
    if name == "transfer_us":
        return (frame.end_ts - frame.ts) // 1000
    return (frame.ts if name == "resp_ts" else frame.end_ts) // 1000


def _to_array(values: Ints, kind: pa.DataType, mask: Bools | None = None) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pa.array(values > 0, type=kind, mask=mask)
    if pa.types.is_timestamp(kind):
        return pa.array(values, type=pa.int64(), mask=mask).view(kind)
    if mask is not None:
        values = np.where(mask, 0, values)
    return pa.array(values.astype(kind.to_pandas_dtype()), type=kind, mask=mask)


def _flow_value(name: str, flow: Flow) -> Any:
    if name == "conn_id":
        return connection_id(flow)
    if name == "link":
        return flow.link
    side = flow.client_side if name.startswith("client") else 1 - flow.client_side
    ip, port = flow.ends[side]
    return format_address(ip) if name.endswith("_ip") else port


@cache
def _api_names() -> pa.Array:
    """The name of each API, by its key."""
    keys = registry.known_api_keys()
    names: list[str | None] = [None] * (max(keys) + 1)
    for key in keys:
        names[key] = registry.api_name(key)
    return pa.array(names, type=pa.string())
