"""Scripts of raw requests against the answers of a real Apache Kafka 4.3.0: on virtual time, and through sockets.

A script whose answer lists APIs that the broker does not serve yet is skipped, and says how many.
"""

from __future__ import annotations

from typing import Any

import pytest

from mockbroker import Cluster
from mockbroker.handlers import ROUTES
from tests.conversations import library
from tests.conversations.brokers import BROKERS, features, properties, venue
from tests.conversations.normal import difference
from tests.conversations.player import Player
from tests.conversations.sockets import MovedVenue
from tests.conversations.venues import Venue

SERVED = {route.name for route in ROUTES.values()}


def _check(script: Any, expected: Any) -> None:
    missing = sorted({step["api"] for step in script["steps"] if "api" in step} - SERVED)
    if missing:
        pytest.fail(f"asks for {', '.join(missing)}, not served")
    listed = {row["apiKey"] for answer in expected for row in answer.get("apiKeys", ())}
    if listed - ROUTES.keys():
        pytest.skip(f"lists {len(listed - ROUTES.keys())} APIs that are not served yet")
    if library.broker_of(script) not in BROKERS:
        pytest.fail(f"needs the broker {script['broker']!r}")


def _play(name: str, place: Venue) -> None:
    for earlier in library.RAN_BEFORE.get(name, ()):
        Player(place, library.read(earlier)).play()
    expected, answers = library.recorded(name), Player(place, library.read(name)).play()

    for index, (want, got) in enumerate(zip(expected, answers, strict=False)):
        assert difference(want, got) is None, f"answer {index}"
    assert len(answers) == len(expected)


@pytest.mark.parametrize("name", library.names())
def test_conversation(name: str) -> None:
    script = library.read(name)
    _check(script, library.recorded(name))

    _play(name, venue(library.broker_of(script)))


@pytest.mark.parametrize("name", library.names())
def test_conversation_over_sockets(name: str) -> None:
    script = library.read(name)
    _check(script, library.recorded(name))
    broker = library.broker_of(script)

    with Cluster(properties=properties(broker), features=features(broker)) as cluster:
        _play(name, MovedVenue(cluster))
