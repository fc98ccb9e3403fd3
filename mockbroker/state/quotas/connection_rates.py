"""`ConnectionRates`: how many connections a broker, its listeners and single addresses accept by second (KIP-612).

Source: ConnectionQuotas of Kafka 4.4.0.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from mockbroker.state.metadata.client_quotas import IP, ClientQuotas
from mockbroker.state.quotas.throttles import Meters, find_throttle_ms
from mockbroker.state.quotas.windowed_rate import QuotaWindows, WindowedRate

CONNECTION_RATE = "connection_creation_rate"


class AddressLimits:
    """The limits of addresses, as Java reads their texts: "localhost", "127.1" and "127.0.0.1" are one address."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas
        self._change_count = -1
        self._limits: dict[str | None, float] = {}

    def __bool__(self) -> bool:
        """Whether any address has a limit."""
        return bool(self._read())

    def find(self, address: str) -> float | None:
        """The limit of an address, or that of the default for addresses; None without one."""
        limits = self._read()
        return limits.get(canonical_address(address), limits.get(None)) if limits else None

    def _read(self) -> dict[str | None, float]:
        if self._change_count != self._quotas.changed.count:
            self._change_count = self._quotas.changed.count
            self._limits = {
                name if name is None else canonical_address(name): values[CONNECTION_RATE]
                for entity, values in self._quotas.find_entities((), strict=False)
                for kind, name in entity
                if kind == IP and CONNECTION_RATE in values
            }
        return self._limits


class ConnectionRates:
    """The new connections of one broker.

    find_rate: the `max.connection.creation.rate` of a listener, of the broker for None. windows:
    `quota.window.num` and `quota.window.size.seconds`; no time is longer than one window. is_protected: whether only
    its own limit is for a listener.
    """

    def __init__(
        self,
        limits: AddressLimits,
        windows: QuotaWindows,
        *,
        find_rate: Callable[[str | None], int],
        is_protected: Callable[[str], bool] = lambda listener: False,
    ) -> None:
        self._limits = limits
        self._windows = windows
        self._find_rate = find_rate
        self._is_protected = is_protected
        self._listeners: dict[str | None, WindowedRate] = {}
        self._addresses: Meters[str, WindowedRate] = Meters(lambda: WindowedRate(windows))

    def record_at_listener(self, listener: str, *, now_ms: int) -> int:
        """Count a connection that a listener begins to accept; the limit of the broker is not for a protected one.

        Returns: the time until it is accepted, milliseconds; the listener accepts no other one before.
        """
        waits_ms = [0]
        for name in self._counted_for(listener):
            rate = self._listeners.setdefault(name, WindowedRate(self._windows))
            rate.record(1, now_ms)
            limit, longest_ms = self._find_rate(name), self._windows.size_ms
            waits_ms.append(find_throttle_ms(rate, limit, longest_ms, now_ms) if limit > 0 else longest_ms)
        return max(waits_ms)

    def record_address(self, address: str, listener: str, *, now_ms: int) -> int:
        """Count a connection of an address, which its listener has accepted.

        Returns: 0; or the time after which the connection is closed, milliseconds. Such a one does not count.
        """
        limit = self._limits.find(address)
        if limit is None:
            return 0
        rate = self._addresses.get(canonical_address(address), now_ms)
        rate.record(1, now_ms)
        throttle_ms = find_throttle_ms(rate, limit, self._windows.size_ms, now_ms)
        if throttle_ms > 0:
            rate.record(-1, now_ms)
            for name in self._counted_for(listener):
                if name in self._listeners:
                    self._listeners[name].record(-1, now_ms)
        return throttle_ms

    def _counted_for(self, listener: str) -> tuple[str | None, ...]:
        return (listener,) if self._is_protected(listener) else (None, listener)


def canonical_address(text: str) -> str:
    """The one text of an address that was checked as the name of a quota's entity, or that a socket has."""
    if text.lower() == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        # As inet_aton reads "127.1": the last part fills the bytes that are left.
        *parts, last = (int(part) for part in text.split("."))
        return str(ipaddress.IPv4Address(bytes(parts) + last.to_bytes(4 - len(parts), "big")))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
