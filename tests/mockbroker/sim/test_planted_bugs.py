"""Bugs planted in a copy of the broker: each is found by one of the first two hundred seeds.

A patch names the seed that found its bug, which is run first; where the simulator has changed since, another one does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import tool

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
BUGS = Path(__file__).parent / "bugs"


@pytest.mark.parametrize("bug", sorted(BUGS.glob("*.patch")), ids=lambda path: path.stem)
def test_a_planted_bug_is_found(bug: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "mockbroker", tmp_path / "mockbroker", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([tool("git"), "apply", "-p1", str(bug)], cwd=tmp_path, check=True)

    seed = re.match(r"Found by seed (\d+)\.\n", bug.read_text())
    assert seed is not None, f"the first line of {bug.name} names no seed"

    result = run_seeds(tmp_path, first=int(seed[1]), count=1)
    if result.returncode == 0:
        result = run_seeds(tmp_path, first=0, count=200)

    assert result.returncode == 1, result.stderr
    assert "Violation: " in result.stdout
    assert "again: python -m mockbroker.sim --seed" in result.stdout


def run_seeds(copy: Path, *, first: int, count: int) -> subprocess.CompletedProcess[str]:
    """Run seeds with the broker in this folder."""
    return subprocess.run(
        [sys.executable, "-m", "mockbroker.sim", "--first", str(first), "--seeds", str(count)],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
