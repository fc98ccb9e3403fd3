"""The optional compiled accelerator: which of the two implementations this process uses.

The extension `kwire.accelerator.native` reads and writes the same messages as the generated Python code, several times
faster. It is optional: where no compiler was found at installation, or if the environment variable `KWIRE_PURE` is
set to anything but 0, the Python code does all the work, with the same results and errors.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

__all__ = ["NATIVE", "find_native", "is_accelerated", "describe_implementation"]


def find_native() -> ModuleType | None:
    """The extension, unless it is not built or switched off. Raises: ImportError when it cannot be loaded."""
    if os.environ.get("KWIRE_PURE", "0") not in {"", "0"}:
        return None
    try:
        return import_module("kwire.accelerator.native")
    except ModuleNotFoundError as error:
        # Only its absence is no error; one that is there, but cannot be loaded, must say why.
        if error.name != "kwire.accelerator.native":
            raise
        return None


#: The extension, or None when this process uses the Python code.
NATIVE = find_native()


def is_accelerated() -> bool:
    """Whether this process uses the extension."""
    return NATIVE is not None


def describe_implementation() -> str:
    """The implementation in use: "compiled" or "pure Python", as `kwire --version` prints it."""
    return "pure Python" if NATIVE is None else "compiled"
