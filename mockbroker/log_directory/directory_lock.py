"""The lock of a log directory: one process at a time uses it. Source: Kafka's FileLock on `.lock`.

The file has the process id and the host of the owner, for the error message of the second process; Kafka leaves it
empty, and both refuse a directory that the other one uses.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

from mockbroker.log_directory.regular_files import open_regular

LOCK_FILE = ".lock"
#: Bytes of the file that are read; on Windows the lock is behind them, so that they can be read while it is held.
_OWNER_SIZE_MAX = 300
#: The directories that this process has locked: the system would grant it a second lock.
_held: set[Path] = set()


class DirectoryInUseError(OSError):
    """Another process uses the directory. owner, host: its process id and machine, None where the file lacks them."""

    def __init__(self, directory: Path, owner: int | None, host: str | None = None) -> None:
        who = "another process" if owner is None else f"process {owner}"
        if host is not None:
            who += f" on {host}"
        super().__init__(f"{directory} is in use by {who}, which holds {directory / LOCK_FILE}")
        self.directory = directory
        self.owner = owner
        self.host = host


class DirectoryLock:
    """Holds the lock of a directory until `release`, or until the process ends in any way."""

    def __init__(self, directory: Path) -> None:
        """Take the lock. Raises: DirectoryInUseError; OSError if the file cannot be made."""
        self._directory = directory.resolve()
        if self._directory in _held:
            raise DirectoryInUseError(directory, os.getpid(), platform.node())
        self._descriptor = open_regular(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT)
        try:
            _lock_file(self._descriptor)
        except OSError as error:
            owner, _, host = os.read(self._descriptor, _OWNER_SIZE_MAX).decode(errors="replace").partition(" ")
            os.close(self._descriptor)
            known = owner.strip().isascii() and owner.strip().isdecimal()
            raise DirectoryInUseError(directory, int(owner) if known else None, host.strip() or None) from error
        try:
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()} {platform.node()}\n".encode())
        except OSError:
            os.close(self._descriptor)
            raise
        _held.add(self._directory)

    def release(self) -> None:
        """Release the lock; the file stays, empty. Releasing twice is no error."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            _held.discard(self._directory)
            os.ftruncate(descriptor, 0)
            os.close(descriptor)


def _lock_file(descriptor: int) -> None:
    """Lock a file without waiting. Raises: OSError if another process has locked it.

    Java locks with fcntl on POSIX, so its locks and these exclude each other.
    """
    if os.name == "nt":
        import msvcrt

        os.lseek(descriptor, _OWNER_SIZE_MAX, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
