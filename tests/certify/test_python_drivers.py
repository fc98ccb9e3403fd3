"""The quick subset of the cases, and the check of drivers, with the drivers of Python clients."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mockbroker.certify import command as certify

DRIVERS = Path(__file__).parents[2] / "examples" / "drivers"

pytestmark = pytest.mark.client


def _command(name: str) -> str:
    return f"{sys.executable} {DRIVERS / name / 'driver.py'}"


def _driver_processes() -> set[str]:
    """The command lines of processes of this test that are drivers."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
            parent = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
        except OSError:
            continue
        if parent == str(os.getpid()) and any(word.endswith("/driver.py") for word in words):
            found.add(" ".join(words))
    return found


def _play(tmp_path: Path, *words: str) -> dict[str, Any]:
    certify.main([*words, "--jobs", "2", "-o", str(tmp_path)])
    results: dict[str, Any] = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    return results


@pytest.mark.timeout(600)
def test_the_quick_subset_has_no_defect_of_a_case_and_leaves_no_process(tmp_path: Path) -> None:
    run = _play(tmp_path, "--quick", "--driver", _command("confluent-kafka"), "--driver", _command("kafka-python"))

    assert [driver["error"] for driver in run["drivers"]] == [None, None]
    assert len(run["results"]) == 2 * len(run["cases"])
    defects = [each["case"] for each in run["results"] if each["verdict"] == "ERROR"]
    assert defects == []
    broken = [each for each in run["results"] if "the driver ended" in each["seen"]]
    assert broken == []
    ok = {(each["driver"], each["case"]) for each in run["results"] if each["verdict"] == "OK"}
    assert {(0, "producing.retries.not-leader"), (1, "producing.retries.not-leader"), (0, "share.session.lost")} <= ok
    assert {(0, "fetching.errors.not-leader"), (1, "fetching.errors.not-leader")} <= ok
    assert _driver_processes() == set()


@pytest.mark.parametrize("name", ["confluent-kafka", "kafka-python"])
def test_a_driver_passes_its_check(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert certify.main(["--check-driver", "--driver", _command(name)]) == 0, capsys.readouterr().out
