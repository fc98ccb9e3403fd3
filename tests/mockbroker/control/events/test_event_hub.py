"""The readers of events: how many there may be, and how long events are recorded after the last one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mockbroker import Cluster
from mockbroker.control.events.event_hub import EventHub, ReaderLimits, TooManyReadersError


def _watcher_count(cluster: Cluster) -> int:
    return cluster.run(lambda server: len(server.require_started().watchers) + len(server.core.journal.on_answer))


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition, which lets the event loop run."""
    async with asyncio.timeout(30):
        while not await condition():
            pass


def test_events_are_recorded_until_a_time_after_the_last_reader() -> None:
    async def read(cluster: Cluster, linger_s: float) -> tuple[str, int, EventHub]:
        hub = EventHub(cluster, linger_s=linger_s)
        first, second = await hub.add_reader(frozenset({"exchange"})), await hub.add_reader(frozenset({"clock"}))
        event_id, during = hub.event_id(0), await asyncio.to_thread(_watcher_count, cluster)
        for reader in (first, second):
            hub.remove_reader(reader)
        return event_id, during, hub

    async def come_back(cluster: Cluster) -> None:
        event_id, during, hub = await read(cluster, linger_s=60)
        assert during == 2
        assert await asyncio.to_thread(_watcher_count, cluster) == 2
        assert hub.find_position(event_id) == 0
        hub.stop()

    async def come_too_late(cluster: Cluster) -> None:
        event_id, _, hub = await read(cluster, linger_s=0)

        async def is_over() -> bool:
            return await asyncio.to_thread(_watcher_count, cluster) == 0

        await _until(is_over)
        assert hub.find_position(event_id) is None
        hub.stop()

    for scenario in (come_back, come_too_late):
        with Cluster() as cluster:
            asyncio.run(scenario(cluster))


def test_there_are_not_too_many_readers_in_all_and_of_one_client() -> None:
    kinds = frozenset({"clock"})

    async def add_readers(cluster: Cluster) -> None:
        hub = EventHub(cluster, limits=ReaderLimits(readers=3, client_readers=2))
        first, _ = await hub.add_reader(kinds, client="a"), await hub.add_reader(kinds, client="a")
        with pytest.raises(TooManyReadersError, match=r"^a has 2 streams open already$"):
            await hub.add_reader(kinds, client="a")
        await hub.add_reader(kinds, client="b")
        with pytest.raises(TooManyReadersError, match=r"^3 streams are open already$"):
            await hub.add_reader(kinds, client="b")
        # A reader that is removed twice counts once.
        hub.remove_reader(first)
        hub.remove_reader(first)
        await hub.add_reader(kinds, client="a")
        with pytest.raises(TooManyReadersError, match=r"^a has 2"):
            await hub.add_reader(kinds, client="a")
        assert hub.reader_count == 3
        hub.stop()

    with Cluster() as cluster:
        asyncio.run(add_readers(cluster))


@pytest.mark.parametrize(
    "event_id", ["", "7", "-", "other-0", "{session}-99", "{session}-x", "{session}-²", "{session}--1"]
)
def test_an_id_of_another_session_or_of_the_future_has_no_position(event_id: str) -> None:
    async def find(cluster: Cluster) -> int | None:
        hub = EventHub(cluster)
        session = hub.event_id(0).removesuffix("-0")
        return hub.find_position(event_id.replace("{session}", session))

    with Cluster() as cluster:
        assert asyncio.run(find(cluster)) is None
