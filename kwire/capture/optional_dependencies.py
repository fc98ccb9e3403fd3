"""Imports of the optional libraries pyarrow and cryptography, only when they are needed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kwire.errors import MissingExtra

if TYPE_CHECKING:
    from types import ModuleType


def require_pyarrow() -> ModuleType:
    """Import and return pyarrow.

    Raises: MissingExtra, which names the command that installs it.
    """
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingExtra("an Arrow table", "arrow") from error


def require_cryptography() -> None:
    """Check that TLS records can be decrypted.

    Raises: MissingExtra, which names the command that installs cryptography.
    """
    if not has_cryptography():
        raise MissingExtra("reading TLS", "tls")


def has_cryptography() -> bool:
    """Whether TLS records can be decrypted."""
    try:
        importlib.import_module("cryptography.hazmat.primitives.ciphers.aead")
    except ImportError:
        return False
    return True
