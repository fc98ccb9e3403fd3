"""Verdicts of certification cases that are recorded in a text file: a case and its verdict a line.

A case whose verdict is chance in the client has those that it may have: `OK,NON-STRICT`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from mockbroker.certify import command as certify

LIBRDKAFKA = Path(__file__).parents[2] / "examples" / "drivers" / "confluent-kafka" / "driver.py"


def changed_verdicts(recorded: Path, output: Path, *families: str) -> dict[str, str]:
    """Play families of cases with librdkafka. Returns: by case, what differs from the recorded verdicts.

    A case that did not end in time is played again alone: its limit is for a machine that does nothing else.
    """
    lines = [line for line in recorded.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    expected = dict(line.split() for line in lines)
    found = _play_cases(output, families, jobs=2)
    late = [name for name, each in found.items() if each["verdict"] == "TIMEOUT" and expected.get(name) != "TIMEOUT"]
    if late:
        found |= _play_cases(output / "again", late, jobs=1)
    changed = {
        name: f"{each['verdict']}, not {expected.get(name)}: expected {each['expected']}; seen {each['seen']}"
        for name, each in found.items()
        if each["verdict"] not in expected.get(name, "").split(",")
    }
    return changed | dict.fromkeys(expected.keys() - found.keys(), "recorded, and not a case")


def _play_cases(output: Path, patterns: Iterable[str], *, jobs: int) -> dict[str, dict[str, str]]:
    """The result of each case that a pattern matches."""
    words = [word for pattern in patterns for word in ("--cases", pattern)]
    certify.main(["--driver", f"{sys.executable} {LIBRDKAFKA}", *words, "--jobs", str(jobs), "-o", str(output)])
    run = json.loads((output / "results.json").read_text(encoding="utf-8"))
    return {each["case"]: each for each in run["results"]}
