"""`EventSource`: records the events of a cluster in its own thread, as long as somebody reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from mockbroker.control.events.event_ring import Event, EventRing
from mockbroker.control.events.state_scan import STATE_KINDS, StateScan

if TYPE_CHECKING:
    from mockbroker.engine.core import Core
    from mockbroker.journal import Exchange
    from mockbroker.net.network_server import NetworkServer
    from mockbroker.server import Server

#: How long events are collected before readers are notified, seconds.
_COLLECT_S = 0.02
#: The part of the cluster's time that scans of its state may take.
_SCAN_SHARE = 0.05
#: What an exchange takes besides its frames, bytes, about.
_EXCHANGE_BYTES = 1000


class EventSource:
    """Records events while it is attached to a server. All its methods run in the cluster's thread.

    notify: is called after events were added, from the cluster's thread. kinds: what is recorded; without any, nothing
    is, and the cluster calls nothing here.
    """

    def __init__(self, ring: EventRing, notify: Callable[[], None]) -> None:
        self._ring = ring
        self._notify = notify
        self._kinds: frozenset[str] = frozenset()
        self._server: Server | None = None
        self._network: NetworkServer | None = None
        self._core: Core | None = None
        self._scan = StateScan()
        self._scan_due_s = 0.0
        self._last_request = 0
        self._timer: asyncio.TimerHandle | None = None

    def record(self, server: Server, kinds: frozenset[str]) -> None:
        """Record events of these kinds from now on; those that were recorded before stay."""
        self._kinds = kinds
        if not kinds:
            self._detach()
            return
        if self._network is None:
            self._server, self._network = server, server.require_started()
            self._network.watchers.add(self._on_cluster_event)
        if self._core is not server.core:
            self._attach_core(server.core)
        self._scan_state()

    def _attach_core(self, core: Core) -> None:
        if self._core is not None and self._on_answer in self._core.journal.on_answer:
            self._core.journal.on_answer.remove(self._on_answer)
        self._core = core
        core.journal.on_answer.append(self._on_answer)
        self._last_request = core.journal.last_number

    def _detach(self) -> None:
        if self._network is not None:
            self._network.watchers.discard(self._on_cluster_event)
        if self._core is not None and self._on_answer in self._core.journal.on_answer:
            self._core.journal.on_answer.remove(self._on_answer)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._network = self._core = None
        self._scan.forget()

    def _on_answer(self, exchange: Exchange) -> None:
        if "exchange" in self._kinds:
            size = _EXCHANGE_BYTES + exchange.request_bytes + exchange.response_bytes
            self._put("exchange", exchange, size)

    def _on_cluster_event(self) -> None:
        """Requests have arrived, or anything else has happened."""
        assert self._server is not None
        core = self._server.core
        if core is not self._core:
            self._attach_core(core)
            if "reset" in self._kinds:
                self._put("reset", None, 0)
        journal = core.journal
        if journal.last_number > self._last_request:
            if "request" in self._kinds:
                for exchange in journal.exchanges_after(self._last_request):
                    self._put("request", exchange, _EXCHANGE_BYTES + exchange.request_bytes)
            self._last_request = journal.last_number
        self._set_timer(_COLLECT_S)

    def _put(self, kind: str, payload: object, size: int) -> None:
        assert self._server is not None
        self._ring.put(Event(kind, self._server.clock.now_ms(), payload, size))

    def _set_timer(self, delay_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        late_s = self._scan_due_s - monotonic()
        if late_s <= 0:
            self._scan_state()
        elif self._kinds & STATE_KINDS:
            self._set_timer(late_s)
        self._notify()

    def _scan_state(self) -> None:
        """Add an event for each change; the next scan comes so much later that scans take a small part of the time."""
        if self._kinds & STATE_KINDS and self._server is not None:
            started_s = monotonic()
            for event in self._scan.find_changes(self._server, self._kinds):
                self._ring.put(event)
            ended_s = monotonic()
            self._scan_due_s = ended_s + (ended_s - started_s) / _SCAN_SHARE
