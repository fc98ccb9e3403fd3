"""The schema-driven codec: slow, but it reports which field is wrong, where, and why. It also records byte ranges.

It runs where the generated code has raised. Its modules and the schemas are imported on first use; most programs never
need them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.schema_codec.reading import (
        read_message,
        read_message_leniently,
        read_message_prefix,
        read_newer_message,
    )
    from kwire.schema_codec.writing import write_message

__all__ = ["read_message", "read_message_leniently", "read_message_prefix", "read_newer_message", "write_message"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "writing" if name == "write_message" else "reading"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
