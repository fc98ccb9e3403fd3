"""CRC-32C, imported on first use.

The package `crc32c` also imports argparse and importlib.metadata, which would add 20 ms to the start of a broker and of
every short command. After the first use the attribute `crc32c` is the package's function itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crc32c import crc32c as crc32c  # noqa: PLC0414 - This re-exports the name.


def __getattr__(name: str) -> object:
    if name != "crc32c":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from crc32c import crc32c as function

    globals()[name] = function
    return function
