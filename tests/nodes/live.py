"""Tells the stories live: starts a real cluster of three, tells each story there, and compares with what was recorded.

    python -m tests.nodes.live [NAME...]

Needs Java and Maven. Exit code 1 when what is seen differs.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

from tests.conversations.normal import difference
from tests.nodes.record import ANSWERS, RealCluster
from tests.nodes.stories import STORIES, tell
from tools.oracle.broker import running_cluster

_PROPERTIES = Path(__file__).with_name("cluster.properties")


def main(names: list[str]) -> int:
    """Tell the stories of these names, all that are recorded when there are none, and sum up."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that brokers are ended on the way out.
    began = time.monotonic()
    told = names or [name for name in STORIES if (ANSWERS / f"{name}.json").exists()]
    different: list[str] = []
    with running_cluster(_PROPERTIES) as (port, folder):
        venue = RealCluster(port, folder)
        for name in told:
            at = time.monotonic()
            try:
                seen = json.loads(json.dumps(tell(name, venue)))
                differs = difference(json.loads((ANSWERS / f"{name}.json").read_text("utf-8")), seen)
            except (OSError, AssertionError) as error:
                differs = f"{type(error).__name__}: {error}"
            if differs:
                different.append(name)
            verdict = f"differs {name}: {differs}" if differs else f"agrees  {name}"
            print(f"{verdict} ({time.monotonic() - at:.1f} s)", flush=True)
    print(f"{len(told) - len(different)} agree, {len(different)} differ, {time.monotonic() - began:.0f} s")
    return 1 if different or not told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
