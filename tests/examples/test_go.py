"""The `testing` helper of `examples/go`, with franz-go."""

from __future__ import annotations

import pytest

from tests.examples.projects import EXAMPLES, Processes, run_project
from tests.support import needs

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_go_tests_pass(processes: Processes) -> None:
    command = [needs.tool("go"), "test", "-count=1", "-v", "./..."]

    written = run_project(EXAMPLES / "go", command, processes=processes, timeout_s=240)

    assert written.count("\n--- PASS: ") == 4, written
