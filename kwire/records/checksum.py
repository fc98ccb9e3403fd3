"""CRC-32C, loaded on first use: after it the attribute `crc32c` is the function of the package `crc32c` itself.

The package also imports importlib.metadata, email and argparse, which takes 20 ms of a broker's first Produce and of
every short command. So its extension is loaded without the package where it is found.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from crc32c import crc32c as crc32c  # noqa: PLC0414 - This re-exports the name.

_PACKAGE, _EXTENSION = "crc32c", "_crc32c"


def __getattr__(name: str) -> object:
    if name != "crc32c":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function: object = getattr(_load_extension() or _import_package(), name)
    globals()[name] = function
    return function


def _load_extension() -> ModuleType | None:
    """The extension alone; None if the package is there already, or has none of this name."""
    package = None if _PACKAGE in sys.modules else PathFinder.find_spec(_PACKAGE)
    if package is None or package.submodule_search_locations is None:
        return None
    spec = PathFinder.find_spec(_EXTENSION, package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module if hasattr(module, "crc32c") else None


def _import_package() -> ModuleType:
    import crc32c

    return crc32c
