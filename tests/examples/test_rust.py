"""The crate of `examples/rust`, with rskafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.projects import EXAMPLES, Processes, find_cargo, run_project

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(300)]

#: Where its dependencies are kept after they were built; building them takes about a minute.
_BUILT = Path.home() / ".cache" / "kwire-examples-rust"


def test_the_rust_tests_pass(processes: Processes) -> None:
    cargo = find_cargo()
    command = [cargo, "test", "--locked", "--tests"]
    environment = {"CARGO_TARGET_DIR": str(_BUILT)}

    written = run_project(EXAMPLES / "rust", command, processes=processes, timeout_s=280, environment=environment)

    assert "test result: ok. 4 passed; 0 failed" in written
