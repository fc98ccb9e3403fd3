"""The cases of share groups with librdkafka: their verdicts are those that were recorded in share_verdicts.txt.

A change of the broker or of a case that changes a verdict is seen here; a wanted change is recorded in the file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mockbroker.certify import command as certify

DRIVER = Path(__file__).parents[2] / "examples" / "drivers" / "confluent-kafka" / "driver.py"
RECORDED = Path(__file__).with_name("share_verdicts.txt")

pytestmark = [pytest.mark.client, pytest.mark.slow]


def _recorded() -> dict[str, str]:
    lines = [line for line in RECORDED.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return dict(line.split() for line in lines)


@pytest.mark.timeout(600)
def test_the_verdicts_of_librdkafka_are_the_recorded_ones(tmp_path: Path) -> None:
    words = ["--driver", f"{sys.executable} {DRIVER}", "--cases", "share", "--jobs", "2", "-o", str(tmp_path)]
    certify.main(words)
    run = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    found = {each["case"]: each for each in run["results"]}
    recorded = _recorded()

    changed = {
        name: f"{each['verdict']}, not {recorded.get(name)}: expected {each['expected']}; seen {each['seen']}"
        for name, each in found.items()
        if each["verdict"] != recorded.get(name)
    }
    assert changed == {}
    assert set(found) == set(recorded)
