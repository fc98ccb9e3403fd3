"""Build the columns of messages that depend on headers and on the index, for all exchanges at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kwire import registry
from kwire.capture.columnar.clients import completing_places
from kwire.capture.index.flows.frame_headers import first_flexible_versions
from kwire.capture.model import CONNECTION_VALUES
from kwire.capture.rows.column import HEADER_PHASES, Phase
from kwire.capture.rows.columns import arrow_schema, message_columns

if TYPE_CHECKING:
    from kwire.capture.columnar.clients import ClientMap
    from kwire.capture.index import Index
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.model import Flow

NO_TIME = -(2**63)
"""The time of a missing frame: earlier than any time in a capture."""

COLUMNS = message_columns(*HEADER_PHASES)
CLIENT_COLUMNS = message_columns(Phase.CLIENT)


class HeaderColumns:
    """Builds the header columns of one capture."""

    def __init__(
        self, index: Index, file: str, clients: Callable[[], ClientMap], build_flow: Callable[[int], Flow]
    ) -> None:
        """Args: file: the value of the column of that name. clients: called only when a client column is built.

        build_flow: returns a flow by its number.
        """
        self._index = index
        self._clients = clients
        self._build_flow = build_flow
        # In a series of files, a row has the name of the file in which it begins.
        files = (index.file_starts if file == index.file else None) or [(0, file)]
        self._starts = np.array([start for start, _ in files], dtype=np.int64)
        self._file_names = [name for _, name in files]
        self._flow_values: dict[str, dict[int, Any]] = {}
        self._client_ids = pa.array(index.client_ids, type=pa.string())
        self._types = {field.name: field.type for field in arrow_schema("messages")}

    def build_column(self, name: str, exchanges: ExchangeColumns) -> pa.Array:
        """One column of these exchanges."""
        kind = self._types[name]
        if name in REQUEST_VALUES:
            return _to_array(self._convert_packets(name, REQUEST_VALUES[name](exchanges)), kind)
        if name in RESPONSE_VALUES:
            values = self._convert_packets(name, RESPONSE_VALUES[name](exchanges))
            return _to_array(values, kind, exchanges.response.frame.size < 0)
        if name in CONNECTION_VALUES:
            return self._flow_column(name, exchanges.flow)
        if name in CLIENT_COLUMNS:
            return self._client_column(name, exchanges)
        if name == "client_id":
            number = exchanges.request.client_id
            if len(self._client_ids) < len(self._index.client_ids):
                self._client_ids = pa.array(self._index.client_ids, type=pa.string())
            return self._client_ids.take(pa.array(np.maximum(number, 0), mask=number < 0))
        if name == "api_name":
            key, names = exchanges.request.api_key, _api_names()
            is_unknown = (key < 0) | (key >= len(names))
            return names.take(pa.array(np.where(is_unknown, 0, key), mask=is_unknown))
        if name == "file":
            return self.file_column(exchanges.request.frame.ts)
        raise KeyError(f"no function builds the column {name}")

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

    def _flow_column(self, name: str, flow: Ints) -> pa.Array:
        numbers, inverse = np.unique(flow, return_inverse=True)
        known, read_value = self._flow_values.setdefault(name, {}), CONNECTION_VALUES[name]
        for number in numbers.tolist():
            if number not in known:
                known[number] = read_value(self._build_flow(number))
        values = pa.array([known[number] for number in numbers.tolist()], type=self._types[name])
        return values.take(pa.array(inverse))

    def _client_column(self, name: str, exchanges: ExchangeColumns) -> pa.Array:
        clients = self._clients()
        flow, inverse = np.unique(exchanges.flow, return_inverse=True)
        clients_of_flows = [clients.single_client(number) for number in flow.tolist()]
        values = pa.array([getattr(client, name) for client, _ in clients_of_flows], type=pa.string())
        places = np.array([place for _, place in clients_of_flows], dtype=np.int64).reshape(-1, 2)[inverse]
        moment, offset = completing_places(exchanges)
        is_early = (moment < places[:, 0]) | ((moment == places[:, 0]) & (offset < places[:, 1]))
        column = values.take(pa.array(inverse, mask=is_early))
        if not (places < 0).any():
            return column
        rows = zip(exchanges.flow.tolist(), moment.tolist(), offset.tolist(), strict=True)
        return pa.array([getattr(clients.client_at(*row), name) for row in rows], type=pa.string())


def _header_version(exchanges: ExchangeColumns) -> Ints:
    # The last item is for unknown API keys.
    limits = first_flexible_versions()
    limit = limits[np.clip(exchanges.request.api_key, -1, len(limits) - 2)]
    return np.where(exchanges.request.api_version >= limit, 2, 1)


REQUEST_VALUES: dict[str, Callable[[ExchangeColumns], Ints]] = {
    "api_key": lambda each: each.request.api_key,
    "api_version": lambda each: each.request.api_version,
    "header_version": _header_version,
    "correlation_id": lambda each: each.request.correlation_id,
    "req_packet": lambda each: each.request.frame.packet,
    "req_ts": lambda each: each.request.frame.ts // 1000,
    "req_end_ts": lambda each: each.request.frame.end_ts // 1000,
    "req_bytes": lambda each: each.request.frame.size + 4,
    "in_flight": lambda each: each.request.in_flight,
}
"""The numbers of each column that depends on the request's header; times are microseconds."""
RESPONSE_VALUES: dict[str, Callable[[ExchangeColumns], Ints]] = {
    "resp_packet": lambda each: each.response.frame.packet,
    "resp_ts": lambda each: each.response.frame.ts // 1000,
    "resp_end_ts": lambda each: each.response.frame.end_ts // 1000,
    "latency_us": lambda each: (each.response.frame.ts - each.request.frame.end_ts) // 1000,
    "transfer_us": lambda each: (each.response.frame.end_ts - each.response.frame.ts) // 1000,
    "resp_bytes": lambda each: each.response.frame.size + 4,
    "order_ok": lambda each: each.response.order_ok,
}
"""The same of the response; what they are without one is not used."""


def _to_array(values: Ints, kind: pa.DataType, mask: Bools | None = None) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pa.array(values > 0, type=kind, mask=mask)
    if pa.types.is_timestamp(kind):
        return pa.array(values, type=pa.int64(), mask=mask).view(kind)
    if mask is not None:
        values = np.where(mask, 0, values)
    return pa.array(values.astype(str(kind)), type=kind, mask=mask)


@cache
def _api_names() -> pa.Array:
    """The name of each API, by its key."""
    keys = registry.known_api_keys()
    names: list[str | None] = [None] * (max(keys) + 1)
    for key in keys:
        names[key] = registry.api_name(key)
    return pa.array(names, type=pa.string())
