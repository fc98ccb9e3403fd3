"""The ring of events: numbers, limits, and readers that are slow."""

from __future__ import annotations

from mockbroker.control.events.event_ring import Event, EventRing


def _put(ring: EventRing, count: int, *, size: int = 1) -> None:
    for _ in range(count):
        ring.put(Event("request", 0, ring.last_number + 1, size))


def test_a_reader_gets_the_events_behind_its_position_in_parts() -> None:
    ring = EventRing(events_max=8)
    _put(ring, 5)

    assert [event.payload for event in ring.read_after(0, limit=3).events] == [1, 2, 3]
    assert [event.payload for event in ring.read_after(3, limit=3).events] == [4, 5]
    assert ring.read_after(5, limit=3) == ((), 6, 0)


def test_a_slow_reader_gets_the_newest_events_and_the_number_of_those_that_are_lost() -> None:
    ring = EventRing(events_max=8)
    _put(ring, 20)
    found = ring.read_after(2, limit=100)

    assert [event.payload for event in found.events] == list(range(13, 21))
    assert (found.first, found.lost) == (13, 10)


def test_large_events_are_dropped_by_their_bytes_except_the_newest() -> None:
    ring = EventRing(events_max=8, bytes_max=100)
    _put(ring, 4, size=40)
    assert [event.payload for event in ring.read_after(0, limit=10).events] == [3, 4]
    _put(ring, 1, size=1000)

    assert [event.payload for event in ring.read_after(0, limit=10).events] == [5]
    _put(ring, 1, size=40)
    assert [event.payload for event in ring.read_after(0, limit=10).events] == [6]


def test_after_a_clear_the_numbers_go_on() -> None:
    ring = EventRing(events_max=4)
    _put(ring, 3)
    ring.clear()
    _put(ring, 1)

    assert ring.read_after(3, limit=10).events[0].payload == 4
    assert ring.read_after(1, limit=10).lost == 2
