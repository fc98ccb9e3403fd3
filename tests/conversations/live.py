"""Runs scripts with real brokers: starts a release of Kafka as the scripts require, and compares with the recordings.

    python -m tests.conversations.live [--release RELEASE] [-j N] [--within SECONDS] [NAME...]
    python -m tests.conversations.live --record [--release RELEASE] NAME...
    python -m tests.conversations.live --generated COUNT [--release RELEASE] [--seed FIRST] [-j N] [KIND...]

NAME may contain *. A script that differs when it runs concurrently is repeated alone. With a time limit the broker of
most scripts is first, the others and their scripts are in another order each day, and the summary counts the scripts
that were not run. --record runs
scripts twice and stores the responses that are equal, with every release of the script unless one is named.
--generated runs COUNT new random scripts of each kind (`random_script_kinds.py`) on virtual time and with a real
broker, and compares them. The release is the newest one unless one is named. Needs Java and Maven; one broker runs at a
time. Exit code 1 when a response differs.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import date
from fnmatch import fnmatchcase
from itertools import product
from typing import NamedTuple

from kwire.errors import WireError
from kwire.schema import RELEASES
from tests.conversations import script_library
from tests.conversations.random_script_kinds import KINDS
from tools.oracle.broker import run_broker
from tools.oracle.conversations.broker_properties import COLD, features, real_properties, virtual_broker
from tools.oracle.conversations.coordinator_warm_up import warm_up
from tools.oracle.conversations.normalization import Json, difference
from tools.oracle.conversations.script_runner import ScriptRunner
from tools.oracle.conversations.socket_brokers import RealTimeBroker
from tools.oracle.jars import KAFKA_VERSIONS

#: What ends a script whose broker answers otherwise than it expects.
_SCRIPT_ERRORS = (OSError, WireError, LookupError, AssertionError)


class ScriptResult(NamedTuple):
    """The result of a script: `differs` is the first difference, or None."""

    name: str
    differs: str | None
    took_s: float

    def __str__(self) -> str:
        line = f"{'differs' if self.differs else 'agrees '} {self.name} ({self.took_s:.1f} s)"
        return f"{line} {self.differs}" if self.differs else line


class RecordedScript(NamedTuple):
    """A script and its expected responses."""

    script: Json
    expected: Json


def _run_named_broker(broker: str, release: str) -> AbstractContextManager[Mapping[str, str]]:
    return run_broker(real_properties(broker), features(broker), version=KAFKA_VERSIONS[release])


def compare(recorded: RecordedScript, addresses: Mapping[str, str]) -> ScriptResult:
    """Run a script with a broker and compare its responses with the expected ones."""
    started = time.monotonic()
    try:
        differs = difference(recorded.expected, ScriptRunner(RealTimeBroker(addresses), recorded.script).run())
    except _SCRIPT_ERRORS as error:
        differs = f"{type(error).__name__}: {error}"
    return ScriptResult(recorded.script["name"], differs, time.monotonic() - started)


def run_schedules(
    schedules: Iterable[script_library.BrokerSchedule],
    scripts: Mapping[str, RecordedScript],
    workers: int,
    *,
    release: str,
    within_s: float = float("inf"),
) -> list[ScriptResult]:
    """Run the scripts of each broker, one broker at a time; one line is printed for each script.

    within_s: no broker and no script is started after this many seconds.
    """
    results: dict[str, ScriptResult] = {}
    deadline = time.monotonic() + within_s
    for schedule in schedules:
        started = time.monotonic()
        if started > deadline:
            break
        with _run_named_broker(schedule.broker, release) as addresses:
            if schedule.broker not in COLD:
                warm_up(addresses["PLAINTEXT"])
            ready = time.monotonic()
            for result in _run_schedule(schedule, scripts, addresses, workers, deadline):
                print(result, flush=True)
                results[result.name] = result
        took_s = time.monotonic() - ready
        print(f"-- {schedule.broker}: up in {ready - started:.1f} s, played in {took_s:.1f} s", flush=True)
    return list(results.values())


def _run_schedule(
    schedule: script_library.BrokerSchedule,
    scripts: Mapping[str, RecordedScript],
    addresses: Mapping[str, str],
    workers: int,
    deadline: float,
) -> Iterator[ScriptResult]:
    def compare_until_deadline(name: str) -> ScriptResult | None:
        return None if time.monotonic() > deadline else compare(scripts[name], addresses)

    yield from filter(None, map(compare_until_deadline, schedule.first))
    differing: list[str] = []
    with ThreadPoolExecutor(workers) as pool:
        for result in filter(None, pool.map(compare_until_deadline, schedule.concurrent)):
            yield result
            if result.differs:
                differing.append(result.name)
    # Order and timing are as recorded only on an idle broker, and Kafka assigns the remainder of a budget at random:
    # a script that differs is repeated alone.
    for name in differing:
        for _ in range(script_library.ATTEMPTS):
            result = compare(scripts[name], addresses)
            yield result
            if not result.differs:
                break
    yield from filter(None, map(compare_until_deadline, schedule.last))


def record(patterns: Collection[str], release: str | None) -> list[ScriptResult]:
    """Run scripts twice, each time with a fresh broker and one by one, and store the responses that are equal.

    release: None for every release of a script.
    """
    results: list[ScriptResult] = []
    for one in RELEASES if release is None else (release,):
        names = _matching(script_library.script_names(one), patterns)
        for schedule in script_library.make_schedules(names):
            first, second = _run_one_by_one(schedule, one), _run_one_by_one(schedule, one)
            for name, answers in first.items():
                differs = answers if isinstance(answers, str) else difference(answers, second[name])
                results.append(ScriptResult(f"{name} {one}", differs, 0))
                if differs is None:
                    script_library.RECORDED.store(name, one, answers, script_library.script_releases(name))
                print(results[-1], flush=True)
    return results


def _matching(names: Iterable[str], patterns: Collection[str]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns or ["*"])]


def _run_one_by_one(schedule: script_library.BrokerSchedule, release: str) -> dict[str, list[Json] | str]:
    """The responses to each script on one fresh broker, or the text of what ended it."""
    answers: dict[str, list[Json] | str] = {}
    with _run_named_broker(schedule.broker, release) as addresses:
        if schedule.broker not in COLD:
            warm_up(addresses["PLAINTEXT"])
        for name in (*schedule.first, *schedule.concurrent, *schedule.last):
            preceding = [one for one in script_library.PRECEDING_SCRIPTS.get(name, ()) if one not in answers]
            for one in (*preceding, name):
                script = script_library.read_script(one, release)
                try:
                    answers[one] = ScriptRunner(RealTimeBroker(addresses), script).run()
                except _SCRIPT_ERRORS as error:
                    answers[one] = f"{type(error).__name__}: {error}"
    return {name: answers[name] for name in (*schedule.first, *schedule.concurrent, *schedule.last)}


def run_recorded(
    patterns: Collection[str], workers: int, *, release: str, within_s: float = float("inf")
) -> list[ScriptResult]:
    """Run the recorded scripts of these names and patterns, all without any, and compare them with the recordings.

    within_s: as in `run_schedules`; the largest schedule is first. What is left out is different each day.
    """
    recorded = [name for name in script_library.script_names(release) if script_library.RECORDED.find(name, release)]
    names = _matching(recorded, patterns)
    read_script, read_recorded = script_library.read_script, script_library.RECORDED.read
    scripts = {name: RecordedScript(read_script(name, release), read_recorded(name, release)) for name in names}
    schedules = script_library.make_schedules(names)
    if within_s < float("inf"):
        schedules.sort(key=lambda schedule: -len(schedule.concurrent))
        others = schedules[1:]
        chance = random.Random(date.today().toordinal())
        chance.shuffle(others)
        schedules = [*schedules[:1], *others]
        for schedule in schedules:
            chance.shuffle(schedule.concurrent)
    results = run_schedules(schedules, scripts, workers, release=release, within_s=within_s)
    if len(results) < len(names):
        print(f"{len(names) - len(results)} scripts were not run within {within_s:.0f} s")
    return results


def run_generated(kinds: Collection[str], seeds: Iterable[int], workers: int, release: str) -> list[ScriptResult]:
    """Run new random scripts of these kinds, all without any, and compare them with the mock's responses."""
    scripts: dict[str, RecordedScript] = {}
    brokers: dict[str, script_library.BrokerSchedule] = {}
    for kind, seed in product(kinds or KINDS, seeds):
        script = {**KINDS[kind](seed).build(), "edition": release}
        broker = script_library.broker_name(script)
        name = script["name"]
        scripts[name] = RecordedScript(script, ScriptRunner(virtual_broker(broker, release), script).run())
        brokers.setdefault(broker, script_library.BrokerSchedule(broker, [], [], [])).concurrent.append(name)
    return run_schedules(brokers.values(), scripts, workers, release=release)


def main(arguments: list[str]) -> int:
    """Run the scripts and print a summary."""
    parser = script_library.command_parser("tests.conversations.live", __doc__)
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--release", choices=RELEASES)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that brokers are stopped.
    started = time.monotonic()
    release = options.release or script_library.NEWEST_RELEASE
    if options.record:
        results = record(options.names, options.release)
    elif options.generated:
        seeds = range(options.seed, options.seed + options.generated)
        results = run_generated(options.names, seeds, options.workers, release)
    else:
        results = run_recorded(options.names, options.workers, release=release, within_s=options.within)
    different = [result.name for result in results if result.differs]
    print(f"{len(results) - len(different)} agree, {len(different)} differ, {time.monotonic() - started:.0f} s")
    return 1 if different or not results else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
