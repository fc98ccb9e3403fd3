"""Programs that a test needs: without one the test is skipped with a reason, or fails if CI=true."""

from __future__ import annotations

import os
import shutil

import pytest


def tool(*names: str) -> str:
    """The path of the first of these programs that is installed. Skips the test if there is none."""
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    return _missing(" or ".join(names))


def _missing(what: str) -> str:
    reason = f"needs {what}, which this machine does not have"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
