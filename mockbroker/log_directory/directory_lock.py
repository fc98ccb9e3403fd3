"""The lock of a log directory: one process at a time uses it. Source: Kafka's FileLock on `.lock`.

The file has the process id of the owner, for the error message of the second process; Kafka leaves it empty, and both
refuse a directory that the other one uses.
"""

from __future__ import annotations

import os
from pathlib import Path

LOCK_FILE = ".lock"
_ID_SIZE_MAX = 20
#: The directories that this process has locked: the system would grant it a second lock.
_held: set[Path] = set()


class DirectoryInUseError(OSError):
    """Another process uses the directory. owner: its process id, None where the file does not have it."""

    def __init__(self, directory: Path, owner: int | None) -> None:
        who = "another process" if owner is None else f"process {owner}"
        super().__init__(f"{directory} is in use by {who}, which holds {directory / LOCK_FILE}")
        self.directory = directory
        self.owner = owner


class DirectoryLock:
    """Holds the lock of a directory until `release`, or until the process ends in any way."""

    def __init__(self, directory: Path) -> None:
        """Take the lock. Raises: DirectoryInUseError; OSError if the file cannot be made."""
        self._directory = directory.resolve()
        if self._directory in _held:
            raise DirectoryInUseError(directory, os.getpid())
        self._descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock_file(self._descriptor)
        except OSError as error:
            owner = os.read(self._descriptor, _ID_SIZE_MAX).strip()
            os.close(self._descriptor)
            raise DirectoryInUseError(directory, int(owner) if owner.isdigit() else None) from error
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())
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

        # Behind the process id, so that it can be read while the lock is held.
        os.lseek(descriptor, _ID_SIZE_MAX, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
