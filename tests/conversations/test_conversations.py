"""Scripts of raw requests against the answers of a real Apache Kafka 4.3.0, played on virtual time.

A script whose answer lists APIs that the broker does not serve yet is skipped, and says how many.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mockbroker import Cluster
from mockbroker.handlers import ROUTES
from tests.conversations.brokers import BROKERS, properties, venue
from tests.conversations.normal import difference
from tests.conversations.player import Player
from tests.conversations.sockets import MovedVenue

SCRIPTS = Path(__file__).parent / "scripts"
SERVED = {route.name for route in ROUTES.values()}
#: Some of each family once more through sockets, the shell and the raw client; to wait is to move its clock on.
OVER_SOCKETS = (
    "other-classic-join-sync",
    "other-produce-codecs",
    "share-ack-worked-sequence",
    "share-heartbeat-timeline",
    "share-session-epoch-rows",
    "share-state-lifecycle",
    "share-state-loaded-by-fetch",
)
#: Answers that show what another script left behind on the recording broker: a group whose name is empty.
RAN_BEFORE = {"share-delete-groups": ("other-offset-commit-fetch",)}
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.json") if not path.name.endswith(".expected.json"))


def _read(name: str) -> Any:
    return json.loads((SCRIPTS / f"{name}.json").read_text("utf-8"))


def _skip_what_is_not_served(script: Any, expected: Any) -> None:
    missing = sorted({step["api"] for step in script["steps"] if "api" in step} - SERVED)
    if missing:
        pytest.fail(f"asks for {', '.join(missing)}, not served")
    listed = {row["apiKey"] for answer in expected for row in answer.get("apiKeys", ())}
    if listed - ROUTES.keys():
        pytest.skip(f"lists {len(listed - ROUTES.keys())} APIs that are not served yet")
    if script.get("broker", "common") not in BROKERS:
        pytest.fail(f"needs the broker {script['broker']!r}")


def _compare(expected: list[Any], answers: list[Any]) -> None:
    for index, (want, got) in enumerate(zip(expected, answers, strict=False)):
        assert difference(want, got) is None, f"answer {index}"
    assert len(answers) == len(expected)


@pytest.mark.parametrize("name", NAMES)
def test_conversation(name: str) -> None:
    script, expected = _read(name), _read(f"{name}.expected")
    _skip_what_is_not_served(script, expected)
    place = venue(script.get("broker", "common"))
    for earlier in RAN_BEFORE.get(name, ()):
        Player(place, _read(earlier)).play()

    _compare(expected, Player(place, script).play())


@pytest.mark.parametrize("name", OVER_SOCKETS)
def test_conversation_over_sockets(name: str) -> None:
    script, expected = _read(name), _read(f"{name}.expected")
    _skip_what_is_not_served(script, expected)

    with Cluster(properties=properties(script.get("broker", "common"))) as cluster:
        _compare(expected, Player(MovedVenue(cluster), script).play())
