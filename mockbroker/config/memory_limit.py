"""The limit of the memory for logs: by default half of the machine's, or of what its container may use."""

from __future__ import annotations

import os
import re
import sys
from functools import cache

from mockbroker.config.broker_config import ConfigError

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_LIMIT = r"(\d{1,15}) ?([KMGT]?)(?:i?B)?"
#: Where the kernel says what a container may use: control groups of version 2 and 1.
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def parse_memory_limit(limit: int | str | None) -> int | None:
    """Bytes, from a number, or a text such as "512MiB", "2G"; None for "none", half of the machine's memory for None.

    Units are powers of 1024, as the JVM's. Raises: ConfigError.
    """
    if limit is None:
        return default_memory_limit()
    if isinstance(limit, str) and limit.lower() == "none":
        return None
    found = re.fullmatch(_LIMIT, str(limit).strip(), re.IGNORECASE | re.ASCII)
    value = int(found[1]) * _UNITS[found[2].upper()] if found is not None else 0
    if value <= 0:
        raise ConfigError(f"memory-limit: {limit!r} is no size above 0, as 512MiB or 2GiB, and not 'none'")
    return value


@cache
def default_memory_limit() -> int | None:
    """Half of the machine's memory, or of its container's if that is less; None where it is unknown."""
    known = [size for size in (_machine_memory(), *map(_container_memory, _CONTAINER_LIMITS)) if size]
    return min(known) // 2 if known else None


def _machine_memory() -> int | None:
    if sys.platform == "win32":
        return _windows_memory()
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _container_memory(path: str) -> int | None:
    """The limit in a file of the kernel; None without a limit, or without the file."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _windows_memory() -> int | None:
    """The physical memory by GlobalMemoryStatusEx, whose structure begins with its size and the load."""
    import ctypes

    status = (ctypes.c_ulonglong * 8)()
    ctypes.cast(status, ctypes.POINTER(ctypes.c_ulong))[0] = ctypes.sizeof(status)
    kernel = getattr(ctypes, "windll").kernel32  # noqa: B009 - It exists on Windows only, so types do not know it.
    return int(status[1]) if kernel.GlobalMemoryStatusEx(status) else None
