"""Scripts and their recorded responses, and the scripts that can run concurrently on one broker."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kwire.schema import RELEASES
from tests.conversations.recordings import Recordings
from tools.oracle.conversations.broker_properties import ONE_BY_ONE, SINGLE_USE
from tools.oracle.conversations.normalization import Json

SCRIPTS = Path(__file__).parent / "scripts"
NEWEST_RELEASE = RELEASES[0]

#: Scripts that share the group with the empty name; other groups have a name of their run. They run in this order.
_SHARING_EMPTY_GROUP = (
    "other-list-groups",
    "other-offset-commit-fetch",
    "share-delete-groups",
    "share-offsets-alter-codes",
    "other-classic-commit",
    "other-txn-offsets",
)
#: Scripts that have run before on the recording broker, and have left a group with an empty name.
PRECEDING_SCRIPTS = {"share-delete-groups": ("other-offset-commit-fetch",)}

#: Top-level request fields that had another name in an earlier release: release, API, and name in the newest one.
_EARLIER_NAMES: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "4.3": {"TxnOffsetCommit": {"generationIdOrMemberEpoch": "generationId"}}
}

#: Requests that change the broker for all clients, and resources whose configuration does.
_CLUSTER_WIDE_APIS = frozenset({"UpdateFeatures", "AlterClientQuotas", "AddRaftVoter", "RemoveRaftVoter"})
_ALTER_CONFIGS_APIS = frozenset({"AlterConfigs", "IncrementalAlterConfigs"})
_BROKER, _LOGGER = 4, 8
#: The first seed of generated scripts, and how often a script runs before it counts as different.
FIRST_SEED, ATTEMPTS = 1000, 3


class BrokerSchedule(NamedTuple):
    """The scripts of one fresh broker: some run one by one, then others concurrently, then the last ones one by one."""

    broker: str
    first: list[str]
    concurrent: list[str]
    last: list[str]


def command_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """The options of the commands that run scripts with real brokers."""
    prog, form = f"python -m {module}", argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(prog=prog, description=description, formatter_class=form)
    parser.add_argument("-j", type=int, default=3, dest="workers", help="number of concurrent scripts, default: 3")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--generated", type=int, default=0, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, metavar="FIRST")
    parser.add_argument("names", nargs="*", metavar="NAME")
    return parser


def script_names(release: str) -> list[str]:
    """All scripts for a release, by name."""
    names = (path.stem for path in SCRIPTS.glob("*.json") if not path.name.endswith(".expected.json"))
    return sorted(name for name in names if release in script_releases(name))


def script_releases(name: str) -> tuple[str, ...]:
    """The releases that a script is for, newest first."""
    return tuple(_parse(name).get("releases", RELEASES))


def read_script(name: str, release: str) -> Json:
    """A script, whose requests are those of a release; files have the field names of the newest one."""
    script = _parse(name)
    names = _EARLIER_NAMES.get(release, {})
    steps = [_rename_fields(step, names[step["api"]]) if step.get("api") in names else step for step in script["steps"]]
    return {**script, "edition": release, "steps": steps}


def _rename_fields(step: Json, names: Mapping[str, str]) -> Json:
    return {**step, "body": {names.get(key, key): value for key, value in step.get("body", {}).items()}}


@cache
def _parse(name: str) -> Json:
    return json.loads((SCRIPTS / f"{name}.json").read_text("utf-8"))


def render_recorded(answers: list[Json]) -> str:
    """The text of recorded responses, one a line."""
    lines = ",\n".join(json.dumps(answer, separators=(",", ":"), ensure_ascii=False) for answer in answers)
    return f"[\n{lines}\n]\n"


#: The recorded responses of real brokers.
RECORDED = Recordings(SCRIPTS, SCRIPTS.with_name("releases"), ".expected.json", render_recorded)


def listed_apis(answers: list[Json]) -> set[int]:
    """The keys of the APIs that the answers to ApiVersions list, where they are compared."""
    lists = (answer.get("apiKeys", ()) for answer in answers)
    return {row["apiKey"] for rows in lists if not isinstance(rows, str) for row in rows}


def broker_name(script: Json) -> str:
    """The broker of a script."""
    broker: str = script.get("broker", "common")
    return broker


def make_schedules(names: Collection[str]) -> list[BrokerSchedule]:
    """The brokers of these scripts, and the order of the scripts on each."""
    schedules: dict[str, BrokerSchedule] = {}
    for name in sorted(names):
        script = _parse(name)
        broker = broker_name(script)
        key = f"{broker} {name}" if broker in SINGLE_USE else broker
        schedule = schedules.setdefault(key, BrokerSchedule(broker, [], [], []))
        if name in _SHARING_EMPTY_GROUP:
            schedule.first.append(name)
        elif broker in ONE_BY_ONE or _changes_broker(script):
            schedule.last.append(name)
        else:
            schedule.concurrent.append(name)
    for schedule in schedules.values():
        schedule.first.sort(key=_SHARING_EMPTY_GROUP.index)
    return list(schedules.values())


def _changes_broker(script: Json) -> bool:
    for step in script["steps"]:
        api, body = step.get("api"), step.get("body", {})
        if api in _CLUSTER_WIDE_APIS:
            return True
        if api in _ALTER_CONFIGS_APIS and any(row["resourceType"] in (_BROKER, _LOGGER) for row in body["resources"]):
            return True
    return False
