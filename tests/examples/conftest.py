"""Fixtures of the tests of the examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.projects import Processes


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    """The command `mockbroker` that a project starts."""
    return Processes(tmp_path)
