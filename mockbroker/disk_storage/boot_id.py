"""The boot id of the machine: as long as it is the same, all that any process has written can be read."""

from __future__ import annotations

from pathlib import Path

_LINUX_FILE = Path("/proc/sys/kernel/random/boot_id")


def read_boot_id() -> str | None:
    """The id, None on systems without one: there every start counts as one after a crash of the machine."""
    try:
        return _LINUX_FILE.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None
