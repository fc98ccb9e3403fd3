"""The crate of `examples/rust`, with rskafka."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.examples.projects import EXAMPLES, Processes, run_project

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(300)]

#: Where its dependencies are kept after they were built; building them takes about a minute.
_BUILT = Path.home() / ".cache" / "kwire-examples-rust"


def test_the_rust_tests_pass(processes: Processes) -> None:
    cargo = _find_cargo()
    command = [cargo, "test", "--locked", "--tests"]
    environment = {"CARGO_TARGET_DIR": str(_BUILT)}

    written = run_project(EXAMPLES / "rust", command, processes=processes, timeout_s=280, environment=environment)

    assert "test result: ok. 4 passed; 0 failed" in written


def _find_cargo() -> str:
    """Skips the test without cargo 1.85, also in CI, which does not install it: Debian's is older."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("needs cargo, which this machine does not have")
    done = subprocess.run([cargo, "--version"], capture_output=True, text=True, timeout=60, check=False)
    version = re.match(r"cargo (\d+)\.(\d+)", done.stdout)
    if version is None or tuple(map(int, version.groups())) < (1, 85):
        pytest.skip(f"needs cargo 1.85, not {done.stdout.strip() or done.stderr.strip()}")
    return cargo
