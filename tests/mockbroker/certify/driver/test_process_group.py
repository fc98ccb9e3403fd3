"""The processes of a driver are found by their environment."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from threading import Timer

import pytest

from mockbroker.certify.driver.process_group import read_environment


def _write_stat(folder: Path, start_code: int) -> None:
    """The file `stat` of a process, with a name that has a space and a parenthesis."""
    fields = ["0"] * 50
    fields[23] = str(start_code)
    (folder / "stat").write_text(f"7 (a ) b) S {' '.join(fields[1:])}\n", encoding="utf-8")


def test_a_process_that_is_starting_a_program_is_looked_at_again(tmp_path: Path) -> None:
    environ = tmp_path / "environ"
    environ.write_bytes(b"")
    _write_stat(tmp_path, start_code=0)
    (tmp_path / "exe").symlink_to("/bin/sleep")
    timer = Timer(0.01, lambda: environ.write_bytes(b"MARK=a\0"))
    timer.start()

    assert read_environment(tmp_path) == b"MARK=a\0"
    timer.join()


def test_a_process_without_a_program_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "environ").write_bytes(b"")

    with pytest.raises(FileNotFoundError):
        read_environment(tmp_path)


def test_a_process_without_variables_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    (tmp_path / "environ").write_bytes(b"")
    (tmp_path / "exe").symlink_to("/bin/sleep")
    _write_stat(tmp_path, start_code=4096)

    assert read_environment(tmp_path) == b""
    assert pauses == []


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_an_ended_process_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        with pytest.raises(OSError, match=r"exe|No such"):
            read_environment(Path(f"/proc/{process.pid}"))
    assert pauses == []
