"""The processes of a driver are found by their environment."""

from __future__ import annotations

from pathlib import Path
from threading import Timer

import pytest

from mockbroker.certify.driver.process_group import read_environment


def test_a_process_that_is_starting_a_program_is_looked_at_again(tmp_path: Path) -> None:
    environ = tmp_path / "environ"
    environ.write_bytes(b"")
    (tmp_path / "exe").symlink_to("/bin/sleep")
    timer = Timer(0.01, lambda: environ.write_bytes(b"MARK=a\0"))
    timer.start()

    assert read_environment(tmp_path) == b"MARK=a\0"
    timer.join()


def test_a_process_without_a_program_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "environ").write_bytes(b"")

    with pytest.raises(FileNotFoundError):
        read_environment(tmp_path)
