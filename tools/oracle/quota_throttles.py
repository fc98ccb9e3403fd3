"""The throttle times of Kafka's quota managers, recorded for machines without Java.

`python -m tools.oracle.quota_throttles` makes operations by a seed, runs them with the classes of Kafka 4.4.0
(`QuotaThrottles.java`), and writes tests/golden/quota_throttles.jsonl.gz. A test compares every result with
`mockbroker.state.quotas`.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.oracle.jars import NEWEST_VERSION, fetch_jars

RECORDING = Path(__file__).parents[2] / "tests" / "golden" / "quota_throttles.jsonl.gz"
_PROGRAM = Path(__file__).with_name("QuotaThrottles.java")
_SEED = 7
_TIMEOUT_S = 300
#: The number of sequences for each kind of manager, and of their operations.
_SEQUENCES, _OPERATIONS = 60, 60
_USERS, _CLIENTS = ("alice", "bob"), ("app", "batch")


class QuotaResult(NamedTuple):
    """An operation on a manager, in the words of `QuotaThrottles.java`, and its result."""

    words: tuple[str, ...]
    result: str


def load_recording() -> list[QuotaResult]:
    """The recorded results, in order."""
    with gzip.open(RECORDING, "rt", encoding="utf-8") as file:
        return [QuotaResult(tuple(words), result) for words, result in map(json.loads, file)]


def _operations() -> Iterator[tuple[str, ...]]:
    chance = random.Random(_SEED)
    for kind in ("fetch", "request", "mutation"):
        for number in range(_SEQUENCES):
            # The first sequences have one level each, where Kafka counts all clients at that level.
            levels = [("user",), ("client",), ("both",), ("user", "client", "both")][number % 4]
            windows = chance.choice(((11, 1), (11, 1), (2, 1), (1, 1), (5, 3)))
            yield "new", kind, str(windows[0]), str(windows[1])
            yield from _sequence(chance, kind, levels, windows[0] * windows[1] * 1000)


def _sequence(chance: random.Random, kind: str, levels: tuple[str, ...], span_ms: int) -> Iterator[tuple[str, ...]]:
    now_ms = 1_790_000_000_000
    limited: set[tuple[str, str]] = set()
    for number in range(_OPERATIONS):
        if number == 0 or chance.random() < 0.15:
            user, client = _entity(chance, chance.choice(levels))
            value = "-" if chance.random() < 0.2 else str(chance.choice((1.0, 2.5, 10.0, 1000.0)))
            (limited.discard if value == "-" else limited.add)((user, client))
            yield "set", user, client, value
            continue
        now_ms += chance.choice((0, 1, 7, 250, 999, 1000, 1001, span_ms // 2, span_ms, 2 * span_ms))
        user, client = chance.choice(_USERS), chance.choice(_CLIENTS)
        if kind != "mutation" and chance.random() < 0.1:
            yield "max", user, client
            continue
        word = "record"
        if chance.random() < 0.3 and limited:  # Nothing is taken back that no quota has counted.
            word = "strict" if kind == "mutation" else "back"
        yield word, user, client, str(float(chance.choice((0, 1, 2, 5, 20, 333, 4000)))), str(now_ms)


def _entity(chance: random.Random, level: str) -> tuple[str, str]:
    user, client = chance.choice((*_USERS, "*")), chance.choice((*_CLIENTS, "*"))
    return ("-" if level == "client" else user), ("-" if level == "user" else client)


def main() -> int:
    """Record the results again."""
    operations = list(_operations())
    text = "".join(" ".join(words) + "\n" for words in operations)
    command = ["java", "-cp", f"{fetch_jars(NEWEST_VERSION)}/*", str(_PROGRAM)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    results = done.stdout.splitlines()
    if done.returncode or len(results) != len(operations):
        raise RuntimeError(f"{len(results)} results for {len(operations)} operations:\n{done.stderr}")
    rows = [json.dumps(row) for row in zip(operations, results, strict=True)]
    # Without a time stamp, the same results give the same file.
    RECORDING.write_bytes(gzip.compress("".join(f"{row}\n" for row in rows).encode(), mtime=0))
    print(f"{len(rows)} results, {sum(result not in {'-', '0'} for result in results)} of them with a time or a limit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
