"""Imports of the optional libraries numpy, pyarrow and cryptography, only when they are needed."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kwire.errors import MissingExtra

if TYPE_CHECKING:
    from types import ModuleType

#: The extra that captures need.
CAPTURES = "captures"
_PACKAGES = ("numpy", "pyarrow")


def has_captures() -> bool:
    """Whether the extra `captures` is installed: indexes and columns need it."""
    return None not in map(find_spec, _PACKAGES)


def explain_missing(what: str, error: ModuleNotFoundError) -> ImportError:
    """The error to raise where an import failed: it names the extra `captures` if that has the missing package.

    Args: what: what needs the extra, as the beginning of the message. error: of the import.
    """
    return MissingExtra(what, CAPTURES) if error.name in _PACKAGES else error


def require_pyarrow() -> ModuleType:
    """Import and return pyarrow.

    Raises: MissingExtra, which names the command that installs it.
    """
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingExtra("a table of rows of a capture", CAPTURES) from error


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
