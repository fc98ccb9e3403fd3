"""`EventHub`: the readers of events, and what is recorded for them."""

from __future__ import annotations

import asyncio
import re
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from mockbroker.control.events.event_ring import EventRing
from mockbroker.control.events.event_source import EventSource
from mockbroker.control.events.recent_parts import RecentParts

if TYPE_CHECKING:
    from mockbroker.cluster_methods.methods import SharedMethods

#: How long events are recorded after the last reader has gone, so that it can come back, seconds.
LINGER_S = 30.0
_NUMBER = re.compile(r"[0-9]{1,18}")


class ReaderLimits(NamedTuple):
    """How many readers there may be in all, and of one client."""

    readers: int = 256
    client_readers: int = 128


class TooManyReadersError(Exception):
    """There are as many readers as there may be, in all or of one client; the text says which."""


class EventReader:
    """A reader: `changed` is set when there may be new events. position: the number of the last one that it got.

    client: the address that it reads from.
    """

    def __init__(self, kinds: frozenset[str], position: int, client: str) -> None:
        self.kinds = kinds
        self.position = position
        self.client = client
        self.changed = asyncio.Event()


_LIMITS = ReaderLimits()


class EventHub:
    """Has the readers. Its methods run in the event loop of the control, in which it is created.

    Clients are counted by address: one that opens many streams leaves some for others.

    parts: those that readers share. stopped: is set at the end, when no more events come.
    """

    def __init__(
        self,
        cluster: SharedMethods,
        *,
        ring: EventRing | None = None,
        linger_s: float = LINGER_S,
        limits: ReaderLimits = _LIMITS,
    ) -> None:
        self.ring = ring or EventRing()
        self.parts = RecentParts()
        self.stopped = asyncio.Event()
        self._cluster = cluster
        self._linger_s = linger_s
        self._loop = asyncio.get_running_loop()
        self._source = EventSource(self.ring, self._notify_from_cluster)
        self._limits = limits
        self._readers: set[EventReader] = set()
        self._session = secrets.token_hex(4)
        self._end_timer: asyncio.TimerHandle | None = None
        self._kinds: frozenset[str] = frozenset()

    @property
    def reader_count(self) -> int:
        """The number of readers."""
        return len(self._readers)

    def event_id(self, number: int) -> str:
        """The id of an event, from which a reader can go on as long as events are recorded."""
        return f"{self._session}-{number}"

    def find_position(self, event_id: str) -> int | None:
        """The number of an event by its id; None if what came after it is not known."""
        session, _, text = event_id.rpartition("-")
        if session != self._session or not _NUMBER.fullmatch(text):
            return None
        return int(text) if int(text) <= self.ring.last_number else None

    async def add_reader(self, kinds: frozenset[str], position: int | None = None, *, client: str = "") -> EventReader:
        """Add a reader, behind an event or from now on. Raises: TooManyReadersError."""
        limits = self._limits
        if sum(reader.client == client for reader in self._readers) >= limits.client_readers:
            raise TooManyReadersError(f"{client or 'this client'} has {limits.client_readers} streams open already")
        if len(self._readers) >= limits.readers:
            raise TooManyReadersError(f"{limits.readers} streams are open already")
        reader = EventReader(kinds, -1, client)
        self._readers.add(reader)
        if self._end_timer is not None:
            self._end_timer.cancel()
            self._end_timer = None
        try:
            await self._record(self._kinds | kinds)
        except BaseException:
            self.remove_reader(reader)
            raise
        reader.position = self.ring.last_number if position is None else position
        return reader

    def remove_reader(self, reader: EventReader) -> None:
        """Remove a reader; after the last one, recording goes on for a time."""
        self._readers.discard(reader)
        if not self._readers and self._end_timer is None:
            self._end_timer = self._loop.call_later(self._linger_s, self._end_recording)

    def stop(self) -> None:
        """End all readers."""
        self.stopped.set()
        if self._end_timer is not None:
            self._end_timer.cancel()
        self.notify()

    def notify(self) -> None:
        """Let every reader look for new events."""
        for reader in self._readers:
            reader.changed.set()

    def _notify_from_cluster(self) -> None:
        with suppress(RuntimeError):  # The loop of the control is closed: the cluster ends later.
            self._loop.call_soon_threadsafe(self.notify)

    async def _record(self, kinds: frozenset[str]) -> None:
        """Record events of these kinds, in the cluster's thread, before this returns."""
        self._kinds = kinds
        await self._cluster.run_async(lambda server: self._source.record(server, kinds))

    def _end_recording(self) -> None:
        self._end_timer = None
        self._session = secrets.token_hex(4)
        self.ring.clear()
        self._task = self._loop.create_task(self._record(frozenset()))
