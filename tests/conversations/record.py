"""Asks a real broker: plays scripts against an address, and compares its answers with the record or writes them anew.

    python -m tests.conversations.record check|record HOST:PORT[,LISTENER=HOST:PORT...] SCRIPT.json...

Listeners beside PLAINTEXT have names. The broker is to run with the properties of `brokers.py`:
`tools/oracle/start-kafka` starts one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.conversations.normal import Json, difference
from tests.conversations.player import Player
from tests.conversations.sockets import WallVenue


def wall(bootstrap: str) -> WallVenue:
    """The venue of HOST:PORT[,LISTENER=HOST:PORT...]."""
    first, *named = bootstrap.split(",")
    return WallVenue({"PLAINTEXT": first, **dict(pair.split("=", 1) for pair in named)})


def write(path: Path, answers: list[Json]) -> None:
    """One answer a line, as the records are kept."""
    lines = ",\n".join(json.dumps(answer, separators=(",", ":"), ensure_ascii=False) for answer in answers)
    path.write_text(f"[\n{lines}\n]\n", "utf-8")


def main(arguments: list[str]) -> int:
    """Exit code 0 when all agree or are recorded, 1 when one differs, 2 for wrong use."""
    if len(arguments) < 3 or arguments[0] not in ("check", "record"):
        print(__doc__, file=sys.stderr)
        return 2
    different = 0
    for name in arguments[2:]:
        script, record = Path(name), Path(name).with_suffix(".expected.json")
        answers = Player(wall(arguments[1]), json.loads(script.read_text("utf-8"))).play()
        if arguments[0] == "record":
            write(record, answers)
            print(f"{script.stem}: {len(answers)} answers recorded")
            continue
        found = difference(json.loads(record.read_text("utf-8")), answers)
        different += found is not None
        print(f"{script.stem}: {found or 'agrees'}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
