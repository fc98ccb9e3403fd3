"""The order in which exchanges are judged."""

from __future__ import annotations

from itertools import permutations

from kwire.conformance.checker import SIZE_MAX, Checker, find_notes
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.observed_traffic import ObservedTraffic


def test_exchanges_are_judged_in_the_order_of_time_however_they_are_added() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, MetadataRequest(), MetadataResponse(), took_ms=10, correlation_id=7)
    traffic.send(5, MetadataRequest(), MetadataResponse(), correlation_id=7)
    traffic.send(30, MetadataRequest(), MetadataResponse(), correlation_id=7)

    for order in permutations(traffic.observations):
        assert [(note.rule, note.exchanges) for note in find_notes(order)] == [("correlation-id-in-flight", (1, 2))]


def test_notes_come_as_soon_as_the_window_is_full() -> None:
    traffic = ObservedTraffic()
    for index in range(50):
        traffic.send(index, MetadataRequest(), MetadataResponse(), took_ms=1.5, correlation_id=7)
    checker = Checker(order_window=10)
    counts = [len(checker.add(observed)) for observed in traffic.observations]

    assert counts[:4] == [0] * 4
    assert sum(counts) + len(checker.finish()) == 49
    assert sum(counts) > 40


def test_large_messages_make_the_window_smaller() -> None:
    traffic = ObservedTraffic()
    for index in range(10):
        traffic.send(
            index * 10, MetadataRequest(), MetadataResponse(), took_ms=15, correlation_id=7, size=SIZE_MAX // 4
        )
    checker = Checker()
    counts = [len(checker.add(observed)) for observed in traffic.observations]

    assert counts[:2] == [0, 0]
    assert sum(counts) >= 6


def test_an_exchange_that_is_complete_too_late_is_no_reason_for_notes() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, MetadataRequest(), MetadataResponse(), took_ms=90, correlation_id=7)
    for index in range(1, 50):
        traffic.send(index, MetadataRequest(), MetadataResponse(), took_ms=0.5)
    checker = Checker(order_window=10)
    notes = [
        note for observed in [*traffic.observations[1:], traffic.observations[0]] for note in checker.add(observed)
    ]

    assert [*notes, *checker.finish()] == []
