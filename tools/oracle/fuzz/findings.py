"""Writes what the fuzzer found: a conversation for each class of differences, and a page about them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tools.oracle.fuzz.sequence_pairs import ShrunkScript
from tools.oracle.fuzz.sequences import used_variables

Json = Any
_VALUE_LENGTH = 600


def write_finding(folder: Path, number: int, found: ShrunkScript) -> str:
    """Write the script, the responses of Kafka as its recording, and those of mockbroker; returns the file name."""
    assert found.script is not None
    folder.mkdir(parents=True, exist_ok=True)
    words = re.sub(r"[^a-z0-9]+", "-", f"{found.difference.api}{found.difference.path}".lower()).strip("-")
    name = f"fuzz-{number:03d}-{words}"[:80]
    script = {
        **found.script,
        "name": name,
        "about": str(found.difference),
        "variables": used_variables(found.script["steps"]),
    }
    (folder / f"{name}.json").write_text(format_script(script), "utf-8")
    for suffix, answers in (("expected", found.kafka), ("ours", found.ours)):
        lines = ",\n".join(json.dumps(answer, separators=(",", ":"), ensure_ascii=False) for answer in answers)
        (folder / f"{name}.{suffix}.json").write_text(f"[\n{lines}\n]\n", "utf-8")
    with (folder / "findings.md").open("a", encoding="utf-8") as page:
        page.write(_describe_finding(found, f"{name}.json") + "\n")
    return f"{name}.json"


def format_script(script: Json) -> str:
    """A script as those of tests/conversations/scripts are written: one step a line."""
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in script.items() if key != "steps"]
    steps = ",\n".join("  " + json.dumps(step, ensure_ascii=False) for step in script["steps"])
    return "{\n" + ",\n".join(lines) + f',\n "steps": [\n{steps}\n ]\n}}\n'


def _describe_finding(found: ShrunkScript, file: str) -> str:
    """A class of differences in a few lines: the last request, and both responses."""
    assert found.script is not None
    request = next(step for step in reversed(found.script["steps"]) if "api" in step or "produce" in step)
    kafka, ours = (
        json.dumps(answers[-1])[:_VALUE_LENGTH] if answers else "none" for answers in (found.kafka, found.ours)
    )
    body = json.dumps(request.get("body", request.get("produce")))[:_VALUE_LENGTH]
    return (
        f"### {found.difference}\n\nv{found.version}, `{file}`\n\n    {body}\n    Kafka: {kafka}\n    ours:  {ours}\n"
    )
