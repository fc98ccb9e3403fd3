"""Runs the share scripts with the early access of Apache Kafka 4.0.0: version 0 of every share API.

    python -m tests.conversations.early [-j N] [NAME...]       runs a real 4.0.0 broker, compares with the recordings
    python -m tests.conversations.early --record [NAME...]     records its responses
    python -m tests.conversations.early --generated COUNT [--seed FIRST] [KIND...]

The scripts are those of 4.3, rewritten, and those of `early_scripts/`; the recorded responses of a real 4.0.0 broker
are in `early/`. --generated runs COUNT new random scripts of each kind (`random_script_kinds.py`) on virtual time and
with a real broker, and compares the responses. Needs Java and Maven. Exit code 1 when a response differs.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from itertools import product
from pathlib import Path

from kwire import Client, from_json, to_json
from kwire.errors import WireError
from kwire.schema import FieldSpec, load_schema, own_message_names
from mockbroker.editions.early_access import RULES
from tests.conversations import script_library
from tests.conversations.random_script_kinds import KINDS
from tools.oracle.broker import run_broker
from tools.oracle.conversations import broker_properties, normalization
from tools.oracle.conversations.coordinator_warm_up import warm_up
from tools.oracle.conversations.normalization import Json
from tools.oracle.conversations.script_runner import ScriptRunner
from tools.oracle.conversations.socket_brokers import RealTimeBroker, wait_real_time
from tools.oracle.conversations.virtual_broker import VirtualBroker
from tools.oracle.jars import KAFKA_VERSIONS

EDITION = "4.0-early-access"
#: The release whose scripts are rewritten.
_SCRIPT_RELEASE = "4.3"
ANSWERS = Path(__file__).parent / "early"
OWN = Path(__file__).parent / "early_scripts"

#: An API that scripts about other subjects use; 4.0.0 does not have it.
_OMITTED_API = "DescribeShareGroupOffsets"
#: APIs that 4.0.0 does not have; scripts about them are skipped.
_UNKNOWN = frozenset({"AlterShareGroupOffsets", "DeleteShareGroupOffsets", "UpdateFeatures"})
#: The fetched partition depends on the hash order of random ids; and a stored batch ends before it begins.
_RANDOM_RESULTS = {"share-fetch-max-bytes-two-partitions", "share-fetch-max-bytes-zero", "share-load-reversed-batch"}
_BROKERS = ("common", "defaults", "snapshots")
_MEMBER = re.compile(r"m\d+")
_UUID_LENGTH = 22
_PARTITION_MAX_BYTES = 1 << 20
_FINAL_EPOCH = -1
#: A fetch right after the end of a session finds its releases written or not, at random.
_WRITTEN_MS = 100
_ELAPSED = re.compile(r"(\d+) ms, not in .*")
_TOLERANCE_MS = 300
_GROUP = 32
_PATIENCE_S, _PAUSE_S = 30.0, 0.1


def properties(broker: str = "common") -> dict[str, str]:
    """The properties of a broker of `broker_properties.py`, with the early access enabled."""
    return {
        **broker_properties.properties("common" if broker == "defaults" else broker),
        "group.coordinator.rebalance.protocols": "classic,consumer,share",
        "unstable.api.versions.enable": "true",
        # The session limit is per group, and the sessions of scripts stay after their connections are closed.
        "group.share.max.groups": "100",
    }


def broker_name(script: Json) -> str:
    """The broker of a script; scripts for Kafka's defaults use the common broker here."""
    broker = script_library.broker_name(script)
    return "common" if broker == "defaults" else broker


def virtual_broker(broker: str = "common") -> VirtualBroker:
    """The early access on virtual time."""
    return VirtualBroker(properties(broker), share_edition=EDITION)


def recorded_names() -> list[str]:
    """The recorded scripts."""
    return sorted(path.name.removesuffix(".expected.json") for path in ANSWERS.glob("*.expected.json"))


def read_recorded(name: str) -> Json:
    """The recorded responses of the 4.0.0 broker."""
    return json.loads((ANSWERS / f"{name}.expected.json").read_text("utf-8"))


def read_script(name: str) -> Json | None:
    """A script in version 0, or None when it needs features that 4.0.0 does not have."""
    path = OWN / f"{name}.json"
    if path.exists():
        return {**json.loads(path.read_text("utf-8")), "edition": EDITION}
    return None if name in _RANDOM_RESULTS else rewrite_script(script_library.read_script(name, _SCRIPT_RELEASE))


def rewrite_script(script: Json) -> Json | None:
    """A script of 4.3 in version 0; None as above."""
    early = (step for given in script["steps"] for step in _without_later_configs(_reset_from_earliest(given)))
    steps = [step for step in early if step.get("api") != _OMITTED_API]
    if script_library.broker_name(script) not in _BROKERS or any(_needs_later_version(step) for step in steps):
        return None
    if not any(_is_share_step(step) for step in steps):
        return None
    rewritten = [new_step for step in steps for new_step in (_to_early_step(step), *_wait_after_close(step))]
    return _with_uuid_members({**script, "edition": EDITION, "steps": rewritten})


def _without_later_configs(step: Json) -> list[Json]:
    """A set-up step without group configurations of later versions."""
    if step.get("api") != "IncrementalAlterConfigs" or not step.get("setup"):
        return [step]
    known_names = RULES.groups.config_names or frozenset()
    resources = []
    for resource in step["body"]["resources"]:
        is_group = resource["resourceType"] == _GROUP
        configs = [config for config in resource["configs"] if not is_group or config["name"] in known_names]
        if configs:
            resources.append({**resource, "configs": configs})
    return [{**step, "body": {**step["body"], "resources": resources}}] if resources else []


def _wait_after_close(step: Json) -> list[Json]:
    ends = _is_share_step(step) and step.get("body", {}).get("shareSessionEpoch") == _FINAL_EPOCH
    return [{"sleep_ms": _WRITTEN_MS}] if ends and not step.get("async") else []


def difference(want: Json, got: Json) -> str | None:
    """The first difference of two responses. Time bounds are those of 4.3, which 4.0.0 may miss too."""
    times = [_ELAPSED.fullmatch(str(answer.get("elapsed"))) for answer in (want, got)]
    if times[0] and times[1] and abs(int(times[0][1]) - int(times[1][1])) <= _TOLERANCE_MS:
        got = {**got, "elapsed": want["elapsed"]}
    return normalization.difference(want, got)


def _reset_from_earliest(step: Json) -> Json:
    """Most scripts alter a group's offsets to 0; here the reset policy has the same effect."""
    if step.get("api") != "AlterShareGroupOffsets" or not step.get("setup"):
        return step
    body = step["body"]
    if any(row["startOffset"] for topic in body["topics"] for row in topic["partitions"]):
        return step
    policy = {"name": "share.auto.offset.reset", "configOperation": 0, "value": "earliest"}
    resource = {"resourceType": 32, "resourceName": body["groupId"], "configs": [policy]}
    return {**step, "api": "IncrementalAlterConfigs", "version": 1, "body": {"resources": [resource]}}


def _with_uuid_members(tree: Json) -> Json:
    """Member ids had to be UUIDs; those of the scripts are m1, m2 and so on."""
    if isinstance(tree, dict):
        return {key: _with_uuid_members(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_with_uuid_members(value) for value in tree]
    return tree.ljust(_UUID_LENGTH, "A") if isinstance(tree, str) and _MEMBER.fullmatch(tree) else tree


def _is_share_step(step: Json) -> bool:
    return f"{step.get('api')}Request" in own_message_names(EDITION)


def _needs_later_version(step: Json) -> bool:
    body = step.get("body", {})
    if step.get("api") in _UNKNOWN or body.get("isRenewAck"):
        return True
    return _is_share_step(step) and ("wireVersion" in step or "answerVersion" in step)


def _to_early_step(step: Json) -> Json:
    if not _is_share_step(step):
        return step
    fields = load_schema(f"{step['api']}Request", EDITION).fields
    body = _cut_fields(step.get("body", {}), fields)
    if step["api"] == "ShareFetch":
        # A partition with MaxBytes 0 is only acknowledged there, and not fetched.
        for topic in body.get("topics") or ():
            for partition in topic.get("partitions", ()):
                partition.setdefault("partitionMaxBytes", _PARTITION_MAX_BYTES)
    return {**step, "version": 0, "body": body}


def _cut_fields(tree: Json, fields: tuple[FieldSpec, ...]) -> Json:
    """An object without fields of later versions."""
    if isinstance(tree, list):
        return [_cut_fields(item, fields) for item in tree]
    if not isinstance(tree, dict):
        return tree
    known_fields = {field.json_name: field for field in fields}
    return {
        key: _cut_fields(value, known_fields[key].fields) if known_fields[key].struct else value
        for key, value in tree.items()
        if key in known_fields
    }


def _all_names() -> list[str]:
    early_names = [path.stem for path in OWN.glob("*.json")]
    later_names = script_library.script_names(_SCRIPT_RELEASE)
    return sorted({*early_names, *(name for name in later_names if name.startswith("share-"))})


ScriptWithExpected = tuple[Json, Json | None]


def _select_scripts(patterns: list[str], *, new: bool) -> Iterator[ScriptWithExpected]:
    """Scripts with their recorded responses, None without. new: include those without."""
    recorded = set(recorded_names())
    for name in _all_names():
        if not any(fnmatchcase(name, pattern) for pattern in patterns or ["*"]) or (name not in recorded and not new):
            continue
        script = read_script(name)
        if script is not None:
            yield script, read_recorded(name) if name in recorded else None


def _generate_scripts(kinds: list[str], seeds: Iterable[int]) -> Iterator[ScriptWithExpected]:
    for kind, seed in product(kinds or KINDS, seeds):
        script = rewrite_script(KINDS[kind](seed).build())
        if script is not None:
            yield script, ScriptRunner(virtual_broker(broker_name(script)), script).run()


def _first_difference(script_with_expected: ScriptWithExpected, addresses: dict[str, str]) -> str | None:
    script, expected = script_with_expected
    for _ in range(script_library.ATTEMPTS):  # A late response of a busy broker is not repeated, a wrong one is.
        try:
            answers = ScriptRunner(RealTimeBroker(addresses), script).run()
        except (OSError, WireError, LookupError, AssertionError) as error:
            differs: str | None = f"{type(error).__name__}: {error}"
            continue
        if expected is None:
            (ANSWERS / f"{script['name']}.expected.json").write_text(script_library.render_recorded(answers), "utf-8")
            return None
        pairs = enumerate(zip(expected, answers, strict=False))
        all_differ = (f"answer {index}{where}" for index, pair in pairs if (where := difference(*pair)))
        differs = next(all_differ, None if len(expected) == len(answers) else "another number of answers")
        if differs is None:
            break
    return differs


def _warm_up(address: str) -> None:
    """Wait until the coordinators have loaded; share coordinators cannot be found, only sent requests to."""
    warm_up(address, finds_share_coordinators=False)
    with Client(address, client_id="warm-up") as client:
        for index in range(20):
            row = {"topicId": "Sxq6YZ3zQ_i8vZ0cGkD5Vw", "partitions": [{"partition": index}]}
            request = from_json("ReadShareGroupStateRequest", 0, {"groupId": "warm", "topics": [row]}, edition=EDITION)
            deadline = time.monotonic() + _PATIENCE_S
            while "'errorCode': 3" not in str(to_json(client.send(request, 0), 0)):  # The topic is unknown, then.
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no share coordinator within {_PATIENCE_S} s")
                wait_real_time(_PAUSE_S)


def run_scripts(scripts: Iterable[ScriptWithExpected], workers: int) -> int:
    """Run scripts with a real broker and print the results; returns how many differ, -1 without any script."""
    by_broker: dict[str, list[ScriptWithExpected]] = defaultdict(list)
    for script_with_expected in scripts:
        by_broker[broker_name(script_with_expected[0])].append(script_with_expected)
    different, count, started = 0, 0, time.monotonic()
    for broker, broker_scripts in by_broker.items():
        with (
            run_broker(properties(broker), version=KAFKA_VERSIONS[EDITION]) as addresses,
            ThreadPoolExecutor(workers) as pool,
        ):
            _warm_up(addresses["PLAINTEXT"])
            results = pool.map(partial(_first_difference, addresses=dict(addresses)), broker_scripts)
            for (script, _), differs in zip(broker_scripts, results, strict=True):
                print(f"differs {script['name']} {differs}" if differs else f"agrees  {script['name']}", flush=True)
                different, count = different + bool(differs), count + 1
    print(f"{count - different} agree, {different} differ, {time.monotonic() - started:.0f} s")
    return different if count else -1


def main(arguments: list[str]) -> int:
    """Run the scripts and print a summary."""
    options = script_library.command_parser("tests.conversations.early", __doc__).parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that brokers are stopped.
    if options.generated:
        questions = _generate_scripts(options.names, range(options.seed, options.seed + options.generated))
    else:
        questions = _select_scripts(options.names, new=options.record)
    if options.record:
        questions = ((found, None) for found, _ in questions)
    return 1 if run_scripts(questions, options.workers) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
