"""Go programs that are built and run against a cluster."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.support import needs

_BUILD_TIMEOUT_S = 240
_TIMEOUT_S = 60


def run_go_program(folder: Path, *arguments: str) -> str:
    """Build and run the program of a folder. Returns: its standard output. One that fails fails the test."""
    with tempfile.TemporaryDirectory() as out:
        binary = str(Path(out) / "program")
        build = [needs.tool("go"), "build", "-o", binary, "."]
        made = subprocess.run(build, cwd=folder, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False)
        assert made.returncode == 0, made.stderr
        done = subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
