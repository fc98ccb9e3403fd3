"""Bugs planted in a copy of the broker: each is found by one of the first two hundred seeds."""

from __future__ import annotations

import os
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

    result = subprocess.run(
        [sys.executable, "-m", "mockbroker.sim", "--seeds", "200"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 1, result.stderr
    assert "Violation: " in result.stdout
    assert "again: python -m mockbroker.sim --seed" in result.stdout
