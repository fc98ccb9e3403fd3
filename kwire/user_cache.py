"""The folders that kwire keeps below the user's cache directory, as of the XDG Base Directory Specification."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache_root(environ: Mapping[str, str]) -> Path:
    """The folder of kwire in the user's cache directory, which need not exist: `~/.cache/kwire` by default."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kwire")
