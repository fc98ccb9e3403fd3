"""The share scripts once more, as the early access of Apache Kafka 4.0.0 is asked them: version 0 of every share API.

The scripts are those of 4.3; only what a real 4.0.0 broker answered is recorded here, in `early/`.

    python -m tests.conversations.early --properties            what the broker has to run with
    python -m tests.conversations.early HOST:PORT [NAME...]     records them at such a broker

`KAFKA_VERSION=4.0.0 tools/oracle/start-kafka PORT FILE` starts one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from kwire.schema import FieldSpec, load, own_names
from tests.conversations import brokers, library, normal
from tests.conversations.normal import Json
from tests.conversations.player import Player
from tests.conversations.record import wall, write
from tests.conversations.venues import VirtualVenue

EDITION = "4.0-early-access"
ANSWERS = Path(__file__).parent / "early"

#: Their answers are looked at by scripts whose subject is something else; 4.0.0 does not have the API.
_LEFT_OUT = "DescribeShareGroupOffsets"
#: Scripts about these have nothing to say to 4.0.0.
_UNKNOWN = frozenset({"AlterShareGroupOffsets", "DeleteShareGroupOffsets", "UpdateFeatures"})
#: Which partition a fetch takes follows the hash order of random ids; and a stored batch ends before it begins.
_LEFT_TO_CHANCE = frozenset({"share-fetch-max-bytes-zero", "share-load-reversed-batch"})
_BROKERS = ("common", "defaults")
_RENEW = 4
_MEMBER = re.compile(r"m\d+")
_UUID_LENGTH = 22
_ROOM = 1 << 20
_FINAL_EPOCH = -1
#: A fetch that follows the end of a session at once finds its releases unwritten or written, as it happens.
_WRITTEN_MS = 100
_LATE = re.compile(r"(\d+) ms, not in .*")
_TOLERANCE_MS = 300


def properties() -> dict[str, str]:
    """Those of the broker `common`, and what switches the early access on."""
    return {
        **brokers.properties("common"),
        "group.coordinator.rebalance.protocols": "classic,consumer,share",
        "unstable.api.versions.enable": "true",
    }


def venue() -> VirtualVenue:
    """The early access on virtual time."""
    return VirtualVenue(properties(), share_edition=EDITION)


def names() -> list[str]:
    """The scripts that have been recorded."""
    return sorted(path.name.removesuffix(".expected.json") for path in ANSWERS.glob("*.expected.json"))


def recorded(name: str) -> Json:
    """What the 4.0.0 broker answered."""
    return json.loads((ANSWERS / f"{name}.expected.json").read_text("utf-8"))


def script(name: str) -> Json | None:
    """A script in version 0, or None when it is about what 4.0.0 does not have."""
    if name in _LEFT_TO_CHANCE:
        return None
    found = library.read(name)
    steps = [_from_earliest(step) for step in found["steps"] if step.get("api") != _LEFT_OUT]
    if library.broker_of(found) not in _BROKERS or any(_is_later(step) for step in steps):
        return None
    if not any(_is_share(step) for step in steps):
        return None
    early = [made for step in steps for made in (_early(step), *_afterwards(step))]
    return _with_uuids({**found, "edition": EDITION, "steps": early})


def _afterwards(step: Json) -> list[Json]:
    ends = _is_share(step) and step.get("body", {}).get("shareSessionEpoch") == _FINAL_EPOCH
    return [{"sleep_ms": _WRITTEN_MS}] if ends and not step.get("async") else []


def difference(want: Json, got: Json) -> str | None:
    """Where two answers differ. A script's bounds of time are those of 4.3: 4.0.0 may be outside of them too."""
    times = [_LATE.fullmatch(str(answer.get("elapsed"))) for answer in (want, got)]
    if times[0] and times[1] and abs(int(times[0][1]) - int(times[1][1])) <= _TOLERANCE_MS:
        got = {**got, "elapsed": want["elapsed"]}
    return normal.difference(want, got)


def _from_earliest(step: Json) -> Json:
    """Most scripts have a group begin at 0 by an alteration; here its reset policy does that."""
    if step.get("api") != "AlterShareGroupOffsets" or not step.get("setup"):
        return step
    body = step["body"]
    if any(row["startOffset"] for topic in body["topics"] for row in topic["partitions"]):
        return step
    policy = {"name": "share.auto.offset.reset", "configOperation": 0, "value": "earliest"}
    resource = {"resourceType": 32, "resourceName": body["groupId"], "configs": [policy]}
    return {**step, "api": "IncrementalAlterConfigs", "version": 1, "body": {"resources": [resource]}}


def _with_uuids(tree: Json) -> Json:
    """Member ids had to be UUIDs; those of the scripts are m1, m2 and so on."""
    if isinstance(tree, dict):
        return {key: _with_uuids(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_with_uuids(value) for value in tree]
    return tree.ljust(_UUID_LENGTH, "A") if isinstance(tree, str) and _MEMBER.fullmatch(tree) else tree


def _is_share(step: Json) -> bool:
    return f"{step.get('api')}Request" in own_names(EDITION)


def _is_later(step: Json) -> bool:
    body = step.get("body", {})
    if step.get("api") in _UNKNOWN or "state" in step or body.get("shareAcquireMode") or body.get("isRenewAck"):
        return True
    if _is_share(step) and ("wireVersion" in step or "answerVersion" in step):
        return True
    return any(
        _RENEW in batch["acknowledgeTypes"]
        for topic in body.get("topics", ()) or ()
        if isinstance(topic, dict)
        for partition in topic.get("partitions", ()) or ()
        if isinstance(partition, dict)
        for batch in partition.get("acknowledgementBatches", ()) or ()
    )


def _early(step: Json) -> Json:
    if not _is_share(step):
        return step
    fields = load(f"{step['api']}Request", EDITION).fields
    body = _cut(step.get("body", {}), fields)
    if step["api"] == "ShareFetch":
        # A partition with room for no byte is only acknowledged there, and not fetched.
        for topic in body.get("topics") or ():
            for partition in topic.get("partitions", ()):
                partition.setdefault("partitionMaxBytes", _ROOM)
    return {**step, "version": 0, "body": body}


def _cut(tree: Json, fields: tuple[FieldSpec, ...]) -> Json:
    """An object without the fields that came later."""
    if isinstance(tree, list):
        return [_cut(each, fields) for each in tree]
    if not isinstance(tree, dict):
        return tree
    known = {field.camel: field for field in fields}
    return {
        key: _cut(value, known[key].fields) if known[key].struct else value
        for key, value in tree.items()
        if key in known
    }


def _candidates(wanted: list[str]) -> Iterator[tuple[str, Json]]:
    for name in wanted or [each for each in library.names() if each.startswith("share-")]:
        found = script(name)
        if found is not None:
            yield name, found


def main(arguments: list[str]) -> int:
    """Record; exit code 2 for wrong use."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    if arguments == ["--properties"]:
        print("\n".join(f"{name}={value}" for name, value in properties().items()))
        return 0
    ANSWERS.mkdir(exist_ok=True)
    for name, found in _candidates(arguments[1:]):
        try:
            answers = Player(wall(arguments[0]), found).play()
        except Exception as error:
            print(f"{name}: not played: {type(error).__name__}: {error}")
            continue
        write(ANSWERS / f"{name}.expected.json", answers)
        print(f"{name}: {len(answers)} answers")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
