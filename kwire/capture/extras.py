"""The one optional library of captures, asked for where it is needed and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def require_pyarrow() -> ModuleType:
    """The pyarrow module; MissingExtra names the command that installs it."""
    try:
        import pyarrow  # noqa: PLC0415 - rows and JSON lines work without it.
    except ImportError as error:
        from kwire.errors import MissingExtra  # noqa: PLC0415

        raise MissingExtra("Arrow tables need pyarrow: pip install kwire[arrow]") from error
    return pyarrow
