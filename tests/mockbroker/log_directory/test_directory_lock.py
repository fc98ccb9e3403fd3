"""One process at a time uses a log directory; the second one learns which one does."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from mockbroker.log_directory.directory_lock import LOCK_FILE, DirectoryInUseError, DirectoryLock

_HOLDER = """
import sys
from pathlib import Path
from mockbroker.log_directory.directory_lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def test_the_second_process_learns_who_holds_the_lock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == "locked\n"

            with pytest.raises(DirectoryInUseError) as caught:
                DirectoryLock(tmp_path)

            assert caught.value.owner == holder.pid
            assert f"{tmp_path} is in use by process {holder.pid} on {platform.node()}, which holds " in str(
                caught.value
            )
        finally:
            holder.kill()
    # A killed process leaves its id, but no lock.
    assert (tmp_path / LOCK_FILE).read_text() == f"{holder.pid} {platform.node()}\n"
    DirectoryLock(tmp_path).release()


def test_a_released_lock_is_free_and_its_file_empty(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    lock.release()
    lock.release()

    assert (tmp_path / LOCK_FILE).read_bytes() == b""


def test_a_process_cannot_use_a_directory_twice(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(DirectoryInUseError, match=f"in use by process {os.getpid()}"):
        DirectoryLock(tmp_path / "." / "")
    lock.release()
    DirectoryLock(tmp_path).release()


def test_a_directory_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DirectoryLock(tmp_path / "missing")
