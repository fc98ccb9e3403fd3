"""The share scripts once more, as the early access of Apache Kafka 4.0.0 is asked them: version 0 of every share API.

    python -m tests.conversations.early [-j N] [NAME...]       asks a real 4.0.0 broker, and compares with the record
    python -m tests.conversations.early --record [NAME...]     writes down what it answers
    python -m tests.conversations.early --generated COUNT [--seed FIRST] [KIND...]

The scripts are those of 4.3, rewritten, and those of `early_scripts/`; what a real 4.0.0 broker answered is kept in
`early/`. --generated plays COUNT new histories of each kind (`histories.py`) on virtual time and at a real broker, and
compares those. Needs Java and Maven. Exit code 1 when an answer differs.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path

from kwire import Client, from_json, to_json
from kwire.errors import WireError
from kwire.schema import FieldSpec, load, own_names
from mockbroker.editions.early_access import RULES
from tests.conversations import brokers, library, normal
from tests.conversations.histories import KINDS
from tests.conversations.normal import Json
from tests.conversations.player import Player
from tests.conversations.record import write
from tests.conversations.sockets import WallVenue, let_pass
from tests.conversations.venues import VirtualVenue
from tests.conversations.warm import warm_up
from tools.oracle.broker import running

EDITION = "4.0-early-access"
VERSION = "4.0.0"
ANSWERS = Path(__file__).parent / "early"
OWN = Path(__file__).parent / "early_scripts"

#: Their answers are looked at by scripts whose subject is something else; 4.0.0 does not have the API.
_LEFT_OUT = "DescribeShareGroupOffsets"
#: Scripts about these have nothing to say to 4.0.0.
_UNKNOWN = frozenset({"AlterShareGroupOffsets", "DeleteShareGroupOffsets", "UpdateFeatures"})
#: Which partition a fetch takes follows the hash order of random ids; and a stored batch ends before it begins.
_LEFT_TO_CHANCE = frozenset(
    {"share-fetch-max-bytes-two-partitions", "share-fetch-max-bytes-zero", "share-load-reversed-batch"}
)
_BROKERS = ("common", "defaults", "snapshots")
_MEMBER = re.compile(r"m\d+")
_UUID_LENGTH = 22
_ROOM = 1 << 20
_FINAL_EPOCH = -1
#: A fetch that follows the end of a session at once finds its releases unwritten or written, as it happens.
_WRITTEN_MS = 100
_LATE = re.compile(r"(\d+) ms, not in .*")
_TOLERANCE_MS = 300
_GROUP = 32
_FIRST_SEED, _ATTEMPTS = 1000, 3
_PATIENCE_S, _PAUSE_S = 30.0, 0.1


def properties(broker: str = "common") -> dict[str, str]:
    """Those of a broker of `brokers.py`, and what switches the early access on."""
    return {
        **brokers.properties("common" if broker == "defaults" else broker),
        "group.coordinator.rebalance.protocols": "classic,consumer,share",
        "unstable.api.versions.enable": "true",
        # A node has room for the sessions of so many groups, and those of the scripts stay when their connections end.
        "group.share.max.groups": "100",
    }


def broker_of(found: Json) -> str:
    """The broker that a script is played at: what is for Kafka's defaults needs none of its own here."""
    broker = library.broker_of(found)
    return "common" if broker == "defaults" else broker


def venue(broker: str = "common") -> VirtualVenue:
    """The early access on virtual time."""
    return VirtualVenue(properties(broker), share_edition=EDITION)


def names() -> list[str]:
    """The scripts that have been recorded."""
    return sorted(path.name.removesuffix(".expected.json") for path in ANSWERS.glob("*.expected.json"))


def recorded(name: str) -> Json:
    """What the 4.0.0 broker answered."""
    return json.loads((ANSWERS / f"{name}.expected.json").read_text("utf-8"))


def script(name: str) -> Json | None:
    """A script in version 0, or None when it is about what 4.0.0 does not have."""
    own = OWN / f"{name}.json"
    if own.exists():
        return {**json.loads(own.read_text("utf-8")), "edition": EDITION}
    return None if name in _LEFT_TO_CHANCE else rewritten(library.read(name))


def rewritten(found: Json) -> Json | None:
    """A script of 4.3 in version 0; None as above."""
    steps = [made for step in found["steps"] for made in _configurable(_from_earliest(step))]
    steps = [step for step in steps if step.get("api") != _LEFT_OUT]
    if library.broker_of(found) not in _BROKERS or any(_is_later(step) for step in steps):
        return None
    if not any(_is_share(step) for step in steps):
        return None
    early = [made for step in steps for made in (_early(step), *_afterwards(step))]
    return _with_uuids({**found, "edition": EDITION, "steps": early})


def _configurable(step: Json) -> list[Json]:
    """A set-up without the configurations of groups that came later."""
    if step.get("api") != "IncrementalAlterConfigs" or not step.get("setup"):
        return [step]
    known = RULES.group_configs or frozenset()
    resources = []
    for resource in step["body"]["resources"]:
        is_group = resource["resourceType"] == _GROUP
        configs = [config for config in resource["configs"] if not is_group or config["name"] in known]
        if configs:
            resources.append({**resource, "configs": configs})
    return [{**step, "body": {**step["body"], "resources": resources}}] if resources else []


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
    if step.get("api") in _UNKNOWN or body.get("isRenewAck"):
        return True
    return _is_share(step) and ("wireVersion" in step or "answerVersion" in step)


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


def _all_names() -> list[str]:
    own = [path.stem for path in OWN.glob("*.json")]
    return sorted({*own, *(name for name in library.names() if name.startswith("share-"))})


Question = tuple[Json, Json | None]


def _questions(patterns: list[str], *, new: bool) -> Iterator[Question]:
    """Scripts with their recorded answers, if they have any. new: those without as well."""
    known = set(names())
    for name in _all_names():
        if not any(fnmatchcase(name, pattern) for pattern in patterns or ["*"]) or (name not in known and not new):
            continue
        found = script(name)
        if found is not None:
            yield found, recorded(name) if name in known else None


def _generated(kinds: list[str], seeds: Iterable[int]) -> Iterator[Question]:
    for kind, seed in product(kinds or KINDS, seeds):
        found = rewritten(KINDS[kind](seed).script())
        if found is not None:
            yield found, Player(venue(broker_of(found)), found).play()


def _differs(question: Question, addresses: dict[str, str]) -> str | None:
    found, expected = question
    for _ in range(_ATTEMPTS):  # Who has no time for a moment answers later; what is wrong stays so.
        try:
            answers = Player(WallVenue(addresses), found).play()
        except (OSError, WireError, LookupError, AssertionError) as error:
            differs: str | None = f"{type(error).__name__}: {error}"
            continue
        if expected is None:
            write(ANSWERS / f"{found['name']}.expected.json", answers)
            return None
        pairs = enumerate(zip(expected, answers, strict=False))
        all_differ = (f"answer {index}{where}" for index, pair in pairs if (where := difference(*pair)))
        differs = next(all_differ, None if len(expected) == len(answers) else "another number of answers")
        if differs is None:
            break
    return differs


def _warm_up(address: str) -> None:
    """Return when the coordinators have loaded; those of share-partitions cannot be found, only asked."""
    warm_up(address, finds_share_coordinators=False)
    with Client(address, client_id="warm-up") as client:
        for index in range(20):
            row = {"topicId": "Sxq6YZ3zQ_i8vZ0cGkD5Vw", "partitions": [{"partition": index}]}
            asked = from_json("ReadShareGroupStateRequest", 0, {"groupId": "warm", "topics": [row]}, edition=EDITION)
            deadline = time.monotonic() + _PATIENCE_S
            while "'errorCode': 3" not in str(to_json(client.send(asked, 0), 0)):  # The topic is unknown, then.
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no share coordinator within {_PATIENCE_S} s")
                let_pass(_PAUSE_S)


def ask(questions: Iterable[Question], workers: int) -> int:
    """Ask a real broker, and tell how it went; how many scripts differ, and -1 when there is none."""
    by_broker: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        by_broker[broker_of(question[0])].append(question)
    different, count, began = 0, 0, time.monotonic()
    for broker, asked in by_broker.items():
        with running(properties(broker), version=VERSION) as addresses, ThreadPoolExecutor(workers) as pool:
            _warm_up(addresses["PLAINTEXT"])
            results = pool.map(lambda question: _differs(question, dict(addresses)), asked)
            for (found, _), differs in zip(asked, results, strict=True):
                print(f"differs {found['name']} {differs}" if differs else f"agrees  {found['name']}", flush=True)
                different, count = different + bool(differs), count + 1
    print(f"{count - different} agree, {different} differ, {time.monotonic() - began:.0f} s")
    return different if count else -1


def main(arguments: list[str]) -> int:
    """Ask, and sum up."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conversations.early", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("-j", type=int, default=3, dest="workers", help="scripts side by side, 3 unless given")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--generated", type=int, default=0, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=_FIRST_SEED, metavar="FIRST")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that brokers are ended on the way out.
    if options.generated:
        questions = _generated(options.names, range(options.seed, options.seed + options.generated))
    else:
        questions = _questions(options.names, new=options.record)
    if options.record:
        questions = ((found, None) for found, _ in questions)
    return 1 if ask(questions, options.workers) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
