"""Fixtures of the tests with real clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.java_tools import ToolShell, tool_shell


@pytest.fixture(scope="session")
def tools() -> Iterator[ToolShell]:
    """Kafka's command-line tools in one virtual machine, which all tests of a process share."""
    with tool_shell() as shell:
        yield shell
