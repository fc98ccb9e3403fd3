"""Tells the stories live: starts a real cluster of three, tells each story there, and compares with what was recorded.

    python -m tests.nodes.live [--within SECONDS] [NAME...]

Within a time it begins with another story each day, and says how many it has not come to. Needs Java and Maven. Exit
code 1 when what is seen differs.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from datetime import date
from pathlib import Path

from tests.conversations.normal import difference
from tests.nodes.record import ANSWERS, RealCluster
from tests.nodes.stories import STORIES, tell
from tools.oracle.broker import running_cluster

_PROPERTIES = Path(__file__).with_name("cluster.properties")


def compare(name: str, venue: RealCluster) -> str | None:
    """Tell a story and say where it differs from the record, or None."""
    try:
        seen = json.loads(json.dumps(tell(name, venue)))
    except (OSError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    return difference(json.loads((ANSWERS / f"{name}.json").read_text("utf-8")), seen)


def main(arguments: list[str]) -> int:
    """Tell, and sum up."""
    parser = argparse.ArgumentParser(prog="python -m tests.nodes.live", description=__doc__)
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that brokers are ended on the way out.
    began = time.monotonic()
    recorded = [name for name in STORIES if (ANSWERS / f"{name}.json").exists()]
    first = date.today().toordinal() % len(recorded) if options.within < float("inf") else 0
    verdicts: dict[str, str | None] = {}
    with running_cluster(_PROPERTIES) as (port, folder):
        venue = RealCluster(port, folder)
        for name in options.names or [*recorded[first:], *recorded[:first]]:
            at = time.monotonic()
            if at - began > options.within:
                break
            # A machine that is busy may be late once; what differs twice is different.
            verdicts[name] = compare(name, venue) and compare(name, venue)
            verdict = f"differs {name}: {verdicts[name]}" if verdicts[name] else f"agrees  {name}"
            print(f"{verdict} ({time.monotonic() - at:.1f} s)", flush=True)
    different = sum(verdict is not None for verdict in verdicts.values())
    untold = len(options.names or recorded) - len(verdicts)
    print(f"{len(verdicts) - different} agree, {different} differ, {untold} not told, {time.monotonic() - began:.0f} s")
    return 1 if different or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
