"""The error for wrong use of a command: an invalid argument, independent of the data."""

from __future__ import annotations


class UsageError(Exception):
    """An argument that cannot be used; the command prints the reason as one line and exits with 2."""
