"""The processes of a driver: its process group, and those that have left it."""

from __future__ import annotations

import os
import secrets
import signal
import time
from contextlib import suppress
from pathlib import Path

#: A variable in the environment of a driver and of all that it starts; its value identifies the driver.
MARK = "MOCKBROKER_CERTIFY_DRIVER"
_SCANS_MAX = 5
#: How often, and after how long, a process is looked at again that is starting a program, seconds.
_READS_MAX = 50
_PAUSE_S = 0.002
#: The place of startcode, field 26 of /proc/PID/stat, after the name of the program in parentheses. Source: proc(5).
_START_CODE = 23


def create_mark() -> str:
    """A value of the variable that no other process has."""
    return secrets.token_hex(16)


def kill_group(group: int) -> bool:
    """Kill all processes of a group. Returns: whether there was one."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # macOS refuses a group of zombies.
        return False
    return True


def marked_processes(mark: str) -> list[int]:
    """The processes with this mark, also outside the driver's group; only where there is /proc, else none."""
    expected = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if expected in read_environment(folder).split(b"\0"):
                found.append(int(folder.name))
    return found


def read_environment(folder: Path) -> bytes:
    """The environment of a process, which Linux shows as empty for a moment while the process starts a program.

    A process without variables is not waited for. Raises: OSError, also for kernel threads and ended processes, which
    have no environment and no program.
    """
    for _ in range(_READS_MAX):
        environment = (folder / "environ").read_bytes()
        if environment:
            return environment
        (folder / "exe").readlink()
        if _has_started(folder):
            return (folder / "environ").read_bytes()
        time.sleep(_PAUSE_S)
    return b""


def _has_started(folder: Path) -> bool:
    """Whether the program of a process was loaded: Linux sets startcode after the environment."""
    fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return fields[_START_CODE] != "0"


def kill_marked(mark: str) -> list[int]:
    """Kill the processes with this mark, and those that they start meanwhile. Returns: their ids."""
    killed: list[int] = []
    for _ in range(_SCANS_MAX):
        found = [process for process in marked_processes(mark) if process not in killed]
        if not found:
            break
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        killed += found
    return killed
