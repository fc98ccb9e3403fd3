"""The helper for node:test of `examples/node`, with kafkajs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.examples.projects import EXAMPLES, Processes, run_project
from tests.support import needs

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(180)]


def test_the_node_tests_pass(tmp_path: Path, processes: Processes) -> None:
    project = tmp_path / "node"  # npm writes into the project.
    shutil.copytree(EXAMPLES / "node", project, ignore=shutil.ignore_patterns("node_modules"))
    install = [needs.tool("npm"), "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"]
    test = [needs.tool("node"), "--test", "--test-reporter=tap"]

    written = run_project(project, install, test, processes=processes, timeout_s=80)

    assert "\n# pass 4\n" in written
    assert "\n# fail 0\n" in written
