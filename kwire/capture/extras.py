"""The optional libraries of captures, asked for where they are needed and not before."""

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


def require_cryptography() -> None:
    """Make sure that TLS records can be opened.

    Raises: MissingExtra, which names the command that installs what that needs.
    """
    if not has_cryptography():
        raise MissingExtra("reading TLS", "tls")


def has_cryptography() -> bool:
    """Whether TLS records can be opened."""
    try:
        importlib.import_module("cryptography.hazmat.primitives.ciphers.aead")
    except ImportError:
        return False
    return True
