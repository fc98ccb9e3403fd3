"""The one optional library of captures, asked for where it is needed and not before."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kwire.errors import MissingExtra

if TYPE_CHECKING:
    from types import ModuleType


def require_pyarrow() -> ModuleType:
    """The pyarrow module.

    Raises: MissingExtra, which names the command that installs it.
    """
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingExtra("an Arrow table", "arrow") from error
