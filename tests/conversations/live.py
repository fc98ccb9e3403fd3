"""Asks real brokers live: starts Kafka 4.3.0 as the scripts name it, plays them, and compares with what is recorded.

    python -m tests.conversations.live [-j N] [NAME...]

NAME may end in *. Needs Java and Maven; one broker runs at a time. Exit code 1 when an answer differs.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from typing import NamedTuple

from kwire.errors import WireError
from tests.conversations import library
from tests.conversations.brokers import COLD, features, real_properties
from tests.conversations.normal import Json, difference
from tests.conversations.player import Player
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


def compare(name: str, address: str, script: Json | None = None, expected: Json | None = None) -> Result:
    """Play a script at a broker and compare what it answers with the record."""
    began = time.monotonic()
    try:
        answers = Player(WallVenue(address), script or library.read(name)).play()
        differs = difference(library.recorded(name) if expected is None else expected, answers)
    except (OSError, WireError, LookupError, AssertionError) as error:
        differs = f"{type(error).__name__}: {error}"
    return Result(name, differs, time.monotonic() - began)


def play(wanted: Collection[str], workers: int) -> list[Result]:
    """All of these scripts, each at the broker that it names; one line is printed for each."""
    results: list[Result] = []
    for sitting in library.sittings(wanted):
        began = time.monotonic()
        with running(real_properties(sitting.broker), features(sitting.broker)) as address:
            if sitting.broker not in COLD:
                warm_up(address)
            ready = time.monotonic()
            for result in _sit(sitting, address, workers):
                print(result, flush=True)
                results.append(result)
        took_s = time.monotonic() - ready
        print(f"-- {sitting.broker}: up in {ready - began:.1f} s, played in {took_s:.1f} s", flush=True)
    return results


def _sit(sitting: library.Sitting, address: str, workers: int) -> Iterator[Result]:
    with ThreadPoolExecutor(workers) as pool:
        for lane in pool.map(lambda names: [compare(name, address) for name in names], sitting.lanes):
            yield from lane
    for name in sitting.in_turn:
        yield compare(name, address)


def chosen(patterns: Iterable[str]) -> list[str]:
    """The recorded scripts that these names and patterns mean; all when there are none."""
    wanted = list(patterns) or ["*"]
    return [
        name
        for name in library.names()
        if library.is_recorded(name) and any(fnmatchcase(name, pattern) for pattern in wanted)
    ]


def main(arguments: list[str]) -> int:
    """Play, and sum up."""
    parser = argparse.ArgumentParser(prog="python -m tests.conversations.live", description=__doc__)
    parser.add_argument("-j", type=int, default=3, dest="workers", help="scripts side by side, 3 unless given")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that brokers are ended on the way out.
    began = time.monotonic()
    results = play(chosen(options.names), options.workers)
    different = [result.name for result in results if result.differs]
    print(f"{len(results) - len(different)} agree, {len(different)} differ, {time.monotonic() - began:.0f} s")
    return 1 if different or not results else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
