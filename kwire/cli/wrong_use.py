"""The failure that is the user's: an argument that cannot be right, whatever the data is."""

from __future__ import annotations


class WrongUseError(Exception):
    """An argument that cannot be used; the command says why in one line and exits with 2."""
