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


#: What the packages expect of the extension; `src/module.c` has the same number. Raise both when a function or type of
#: the extension is added or changed, so that one that was built from other sources is refused.
INTERFACE = 5


def find_native() -> ModuleType | None:
    """The extension, unless it is not built or switched off. Raises: ImportError when it cannot be loaded."""
    if os.environ.get("KWIRE_PURE", "0") not in {"", "0"}:
        return None
    try:
        native = import_module("kwire.accelerator.native")
    except ModuleNotFoundError as error:
        # Only its absence is no error; one that is there, but cannot be loaded, must say why.
        if error.name != "kwire.accelerator.native":
            raise
        return None
    if (found := getattr(native, "INTERFACE", None)) != INTERFACE:
        raise ImportError(
            f"{native.__file__} has interface {found}, kwire needs {INTERFACE}: it was built from other sources. "
            "Install kwire again, or `make` in a checkout; KWIRE_PURE=1 works without it",
            name=native.__name__,
        )
    return native


#: The extension, or None when this process uses the Python code.
NATIVE = find_native()


def is_accelerated() -> bool:
    """Whether this process uses the extension."""
    return NATIVE is not None


def describe_implementation() -> str:
    """The implementation in use: "compiled" or "pure Python", as `kwire --version` prints it."""
    return "pure Python" if NATIVE is None else "compiled"
