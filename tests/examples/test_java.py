"""The JUnit extension of `examples/java`, with Kafka's own client."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.examples.projects import EXAMPLES, Processes, run_project
from tests.support import needs

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_java_tests_pass(tmp_path: Path, processes: Processes) -> None:
    needs.tool("javac")
    project = tmp_path / "java"  # Maven writes below the project.
    shutil.copytree(EXAMPLES / "java", project, ignore=shutil.ignore_patterns("target"))
    maven = [needs.tool("mvn"), "-B", "-ntp", "-DargLine=-XX:TieredStopAtLevel=1", "test"]

    written = run_project(project, maven, processes=processes, timeout_s=240)

    assert "Tests run: 5, Failures: 0, Errors: 0, Skipped: 0" in written
