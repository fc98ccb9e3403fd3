"""Kafka's own command-line tools, from the jars of the release, as processes with a time limit."""

from __future__ import annotations

import subprocess

from tests import needs
from tools.oracle.jars import jars

_PATIENCE_S = 90


def run(tool: str, *arguments: str, given: str = "") -> str:
    """Run the class of a tool, and return what it wrote to stdout; it fails the test when the tool fails."""
    command = [needs.tool("java"), "-XX:TieredStopAtLevel=1", "-cp", f"{jars(maven=needs.tool('mvn'))}/*"]
    done = subprocess.run(
        [*command, tool, *arguments], input=given, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
    )
    assert done.returncode == 0, f"{tool} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
