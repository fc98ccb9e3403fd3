"""Asks real brokers live: starts Kafka 4.3.0 as the scripts name it, plays them, and compares with what is recorded.

    python -m tests.conversations.live [-j N] [--within SECONDS] [NAME...]
    python -m tests.conversations.live --record NAME...
    python -m tests.conversations.live --generated COUNT [--seed FIRST] [-j N] [KIND...]

NAME may hold *. What differs beside others is asked again alone. Within a time the broker of most scripts comes first,
then another one each day, and the end says how many scripts were not played. --record plays scripts twice and writes
down what was answered alike. --generated plays COUNT new histories of each kind (`histories.py`) here, on virtual time,
and at a real broker, and compares those. Needs Java and Maven; one broker runs at a time. Exit code 1 when an answer
differs.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from fnmatch import fnmatchcase
from itertools import product
from typing import NamedTuple

from kwire.errors import WireError
from tests.conversations import library
from tests.conversations.brokers import COLD, features, real_properties, venue
from tests.conversations.histories import KINDS
from tests.conversations.normal import Json, difference
from tests.conversations.player import Player
from tests.conversations.record import write
from tests.conversations.sockets import WallVenue
from tests.conversations.warm import warm_up
from tools.oracle.broker import running


class Result(NamedTuple):
    """How a script went: `differs` says where it differs first, or is None."""

    name: str
    differs: str | None
    took_s: float

    def __str__(self) -> str:
        line = f"{'differs' if self.differs else 'agrees '} {self.name} ({self.took_s:.1f} s)"
        return f"{line} {self.differs}" if self.differs else line


_FIRST_SEED = 1000
_ATTEMPTS = 3


class Question(NamedTuple):
    """A script and its answers as they should be."""

    script: Json
    expected: Json


def compare(question: Question, addresses: Mapping[str, str]) -> Result:
    """Play a script at a broker and compare what it answers with what it should."""
    began = time.monotonic()
    try:
        differs = difference(question.expected, Player(WallVenue(addresses), question.script).play())
    except (OSError, WireError, LookupError, AssertionError) as error:
        differs = f"{type(error).__name__}: {error}"
    return Result(question.script["name"], differs, time.monotonic() - began)


def play(
    sittings: Iterable[library.Sitting],
    questions: Mapping[str, Question],
    workers: int,
    *,
    within_s: float = float("inf"),
) -> list[Result]:
    """Play at the brokers that the scripts name, one broker at a time; one line is printed for each script.

    within_s: no broker is started after so many seconds.
    """
    results: dict[str, Result] = {}
    at_first = time.monotonic()
    for sitting in sittings:
        began = time.monotonic()
        if began - at_first > within_s:
            break
        with running(real_properties(sitting.broker), features(sitting.broker)) as addresses:
            if sitting.broker not in COLD:
                warm_up(addresses["PLAINTEXT"])
            ready = time.monotonic()
            for result in _sit(sitting, questions, addresses, workers):
                print(result, flush=True)
                results[result.name] = result
        took_s = time.monotonic() - ready
        print(f"-- {sitting.broker}: up in {ready - began:.1f} s, played in {took_s:.1f} s", flush=True)
    return list(results.values())


def _sit(
    sitting: library.Sitting, questions: Mapping[str, Question], addresses: Mapping[str, str], workers: int
) -> Iterator[Result]:
    for name in sitting.first:
        yield compare(questions[name], addresses)
    crowded: list[str] = []
    with ThreadPoolExecutor(workers) as pool:
        for result in pool.map(lambda name: compare(questions[name], addresses), sitting.side_by_side):
            yield result
            if result.differs:
                crowded.append(result.name)
    # Who comes first within a broker, and what is in time, is as it was recorded only where the broker has time, and
    # Kafka gives what is left of a budget to anybody: what differs is asked again, alone, and that counts.
    for name in crowded:
        for _ in range(_ATTEMPTS):
            result = compare(questions[name], addresses)
            yield result
            if not result.differs:
                break
    for name in sitting.last:
        yield compare(questions[name], addresses)


def record(names: Iterable[str]) -> list[Result]:
    """Play scripts twice, each time at a fresh broker, and write down what is answered alike."""
    results: list[Result] = []
    for name in names:
        script = library.read(name)
        broker = library.broker_of(script)
        began = time.monotonic()
        answers: list[Json] = []
        for _ in range(2):
            with running(real_properties(broker), features(broker)) as addresses:
                if broker not in COLD:
                    warm_up(addresses["PLAINTEXT"])
                for earlier in library.RAN_BEFORE.get(name, ()):
                    Player(WallVenue(addresses), library.read(earlier)).play()
                answers.append(Player(WallVenue(addresses), script).play())
        results.append(Result(name, difference(*answers), time.monotonic() - began))
        if results[-1].differs is None:
            write(library.SCRIPTS / f"{name}.expected.json", answers[0])
        print(results[-1], flush=True)
    return results


def written(patterns: Collection[str], workers: int, *, within_s: float = float("inf")) -> list[Result]:
    """The recorded scripts that these names and patterns mean, all when there are none, against what was recorded.

    within_s: as of `play`, with the greatest sitting first and the others in an order of the day.
    """
    names = [
        name
        for name in library.names()
        if library.is_recorded(name) and any(fnmatchcase(name, pattern) for pattern in patterns or ["*"])
    ]
    questions = {name: Question(library.read(name), library.recorded(name)) for name in names}
    sittings = library.sittings(names)
    if within_s < float("inf"):
        sittings.sort(key=lambda sitting: -len(sitting.side_by_side))
        others = sittings[1:]
        first = date.today().toordinal() % max(1, len(others))
        sittings = [*sittings[:1], *others[first:], *others[:first]]
    results = play(sittings, questions, workers, within_s=within_s)
    if len(results) < len(names):
        print(f"{len(names) - len(results)} scripts were not played within {within_s:.0f} s")
    return results


def generated(kinds: Collection[str], seeds: Iterable[int], workers: int) -> list[Result]:
    """New histories of these kinds, all when there are none, against what our broker answers."""
    questions: dict[str, Question] = {}
    brokers: dict[str, library.Sitting] = {}
    for kind, seed in product(kinds or KINDS, seeds):
        script = KINDS[kind](seed).script()
        broker = library.broker_of(script)
        name = script["name"]
        questions[name] = Question(script, Player(venue(broker), script).play())
        brokers.setdefault(broker, library.Sitting(broker, [], [], [])).side_by_side.append(name)
    return play(brokers.values(), questions, workers)


def main(arguments: list[str]) -> int:
    """Play, and sum up."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conversations.live", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("-j", type=int, default=3, dest="workers", help="scripts side by side, 3 unless given")
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--generated", type=int, default=0, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=_FIRST_SEED, metavar="FIRST")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that brokers are ended on the way out.
    began = time.monotonic()
    if options.record:
        results = record(options.names)
    elif options.generated:
        seeds = range(options.seed, options.seed + options.generated)
        results = generated(options.names, seeds, options.workers)
    else:
        results = written(options.names, options.workers, within_s=options.within)
    different = [result.name for result in results if result.differs]
    print(f"{len(results) - len(different)} agree, {len(different)} differ, {time.monotonic() - began:.0f} s")
    return 1 if different or not results else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
