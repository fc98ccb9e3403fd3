"""CRC-32C, loaded when the first checksum is made.

The wheel's package imports argparse and importlib.metadata beside its function: 20 ms that a broker's start and every
small command would pay. After the first use `crc32c` is the wheel's own function, found without detour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crc32c import crc32c as crc32c  # noqa: PLC0414 - This is how a name is handed on.


def __getattr__(name: str) -> object:
    if name != "crc32c":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from crc32c import crc32c as function

    globals()[name] = function
    return function
