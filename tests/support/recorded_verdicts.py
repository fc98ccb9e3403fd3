"""Verdicts of certification cases that are recorded in a text file: a case and its verdict a line.

A case whose verdict is chance in the client has those that it may have: `OK,NON-STRICT`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mockbroker.certify import command as certify

LIBRDKAFKA = Path(__file__).parents[2] / "examples" / "drivers" / "confluent-kafka" / "driver.py"


def changed_verdicts(recorded: Path, output: Path, *families: str) -> dict[str, str]:
    """Play families of cases with librdkafka. Returns: by case, what differs from the recorded verdicts."""
    patterns = [word for family in families for word in ("--cases", family)]
    certify.main(["--driver", f"{sys.executable} {LIBRDKAFKA}", *patterns, "--jobs", "2", "-o", str(output)])
    run = json.loads((output / "results.json").read_text(encoding="utf-8"))
    found = {each["case"]: each for each in run["results"]}
    lines = [line for line in recorded.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    expected = dict(line.split() for line in lines)
    changed = {
        name: f"{each['verdict']}, not {expected.get(name)}: expected {each['expected']}; seen {each['seen']}"
        for name, each in found.items()
        if each["verdict"] not in expected.get(name, "").split(",")
    }
    return changed | dict.fromkeys(expected.keys() - found.keys(), "recorded, and not a case")
