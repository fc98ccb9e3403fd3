"""What a test needs of the machine: it is skipped, and says why, where that is missing; with CI=true that is a failure."""

from __future__ import annotations

import os
import shutil

import pytest


def tool(*names: str) -> str:
    """The path of the first of these programs that the machine has."""
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
