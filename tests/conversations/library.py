"""The scripts and what was recorded of them, and which of them may be played side by side on one broker."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from tests.conversations.brokers import ALONE, ONCE
from tests.conversations.normal import Json

SCRIPTS = Path(__file__).parent / "scripts"

#: Scripts that meet in the group without a name, where every other group's name is of its run; played in this order.
_MEETING = (
    "other-list-groups",
    "other-offset-commit-fetch",
    "share-delete-groups",
    "share-offsets-alter-codes",
    "other-classic-commit",
    "other-txn-offsets",
)
#: Answers that show what another script left behind on the recording broker: a group whose name is empty.
RAN_BEFORE = {"share-delete-groups": ("other-offset-commit-fetch",)}

#: Requests that change what holds for all clients of a broker, and resources whose configurations do.
_FOR_ALL = frozenset({"UpdateFeatures", "AlterClientQuotas", "AddRaftVoter", "RemoveRaftVoter"})
_ALTERING = frozenset({"AlterConfigs", "IncrementalAlterConfigs"})
_BROKER, _LOGGER = 4, 8


class Sitting(NamedTuple):
    """What is played on one fresh broker: some one by one, then others side by side, then the last ones one by one."""

    broker: str
    first: list[str]
    side_by_side: list[str]
    last: list[str]


def names() -> list[str]:
    """All scripts, by name."""
    return sorted(path.stem for path in SCRIPTS.glob("*.json") if not path.name.endswith(".expected.json"))


def is_recorded(name: str) -> bool:
    """Whether a real broker has answered the script."""
    return (SCRIPTS / f"{name}.expected.json").exists()


def read(name: str) -> Json:
    """A script."""
    return json.loads((SCRIPTS / f"{name}.json").read_text("utf-8"))


def recorded(name: str) -> Json:
    """Its answers, as a real broker gave them."""
    return json.loads((SCRIPTS / f"{name}.expected.json").read_text("utf-8"))


def broker_of(script: Json) -> str:
    """The broker that a script names."""
    broker: str = script.get("broker", "common")
    return broker


def sittings(wanted: Collection[str]) -> list[Sitting]:
    """Who is played where, and beside whom."""
    found: dict[str, Sitting] = {}
    for name in sorted(wanted):
        script = read(name)
        broker = broker_of(script)
        place = f"{broker} {name}" if broker in ONCE else broker
        sitting = found.setdefault(place, Sitting(broker, [], [], []))
        if name in _MEETING:
            sitting.first.append(name)
        elif broker in ALONE or _changes_all(script):
            sitting.last.append(name)
        else:
            sitting.side_by_side.append(name)
    for sitting in found.values():
        sitting.first.sort(key=_MEETING.index)
    return list(found.values())


def _changes_all(script: Json) -> bool:
    for step in script["steps"]:
        api, body = step.get("api"), step.get("body", {})
        if api in _FOR_ALL:
            return True
        if api in _ALTERING and any(row["resourceType"] in (_BROKER, _LOGGER) for row in body["resources"]):
            return True
    return False
