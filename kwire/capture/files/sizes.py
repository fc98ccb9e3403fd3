"""Sizes in options: a number of bytes, or one with a unit."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d{1,15})([KMGT]?)(?:i?B)?", re.IGNORECASE)


def parse_size(text: str) -> int:
    """The number of bytes of `1000`, `512M` or `4G`; units are powers of 1024. Raises: ValueError for anything else."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError("expected a size above 0, as 512M or 4G")
    return int(match[1]) * _UNITS[match[2].upper()]
