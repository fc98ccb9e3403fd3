"""Golden vectors of the versions that Kafka 4.0 removed, written by the classes of Kafka 3.9 (`GoldenVectors.java`).

`python -m tools.oracle.golden_vectors` writes tests/golden/vectors-before-4.0.jsonl.gz: for each message and version
three lines, whose values depend on a seed.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

from kwire.schema import REMOVED_EDITION, load_schema, own_message_names
from tools.oracle.jars import KAFKA_VERSIONS, NEWEST_VERSION, fetch_clients_jar, fetch_jars

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / f"vectors-{REMOVED_EDITION}.jsonl.gz"
_PROGRAM = Path(__file__).with_name("GoldenVectors.java")
_CASES = 3
_SEED = 39
_TIMEOUT_S = 300


def _wanted_lines() -> list[str]:
    names = own_message_names(REMOVED_EDITION)
    wanted = [(name, version) for name in names for version in load_schema(name, REMOVED_EDITION).versions.to_range()]
    return [
        f"{name} {version} {case} {_SEED + at * _CASES + case}"
        for at, (name, version) in enumerate(wanted)
        for case in range(_CASES)
    ]


def _run_kafka(lines: list[str]) -> list[str]:
    version = KAFKA_VERSIONS[REMOVED_EDITION]
    # The converters to JSON need Jackson, which the clients do not depend on.
    jars = [fetch_clients_jar(version), *sorted(fetch_jars(NEWEST_VERSION).glob("jackson-*.jar"))]
    clients = sorted(jars[0].parent.glob("*.jar"))
    command = ["java", "-cp", os.pathsep.join(map(str, [*clients, *jars[1:]])), str(_PROGRAM)]
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    vectors = done.stdout.splitlines()
    if done.returncode or len(vectors) != len(lines):
        raise RuntimeError(f"{len(vectors)} vectors for {len(lines)} lines:\n{done.stderr}")
    return vectors


def main() -> int:
    """Write the file."""
    vectors = [json.dumps(json.loads(line), separators=(",", ":")) for line in _run_kafka(_wanted_lines())]
    # Without a time stamp, the same vectors give the same file.
    GOLDEN.write_bytes(gzip.compress("".join(f"{line}\n" for line in vectors).encode(), mtime=0))
    print(f"{len(vectors)} vectors of {len(own_message_names(REMOVED_EDITION))} messages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
