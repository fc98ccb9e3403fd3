"""Files of the system: what the interface promises beyond a read and a write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mockbroker.log_directory.disk_files import DiskFiles


def test_a_linked_file_is_one_file_until_a_name_is_replaced(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    files.create_folder("a")
    files.create_folder("b")
    file = files.open_file("a/f")
    files.link("a/f", "b/f")
    file.append(b"12")
    is_same = files.is_same_file("a/f", "b/f")
    files.write_file("a/f", b"3")
    file.close()

    assert is_same
    assert (files.read_file("a/f"), files.read_file("b/f")) == (b"3", b"12")
    assert not files.is_same_file("a/f", "b/f")
    assert not files.is_same_file("a/f", "b/none")


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = DiskFiles(tmp_path).open_file("f")
    file.append(b"abc")
    write, truncate = os.write, os.ftruncate

    def short_write(descriptor: int, data: bytes) -> int:
        if len(data) < 4:
            raise OSError(28, "No space left on device")
        return write(descriptor, bytes(data)[:2])

    def failing_truncate(descriptor: int, size: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "write", short_write)
    monkeypatch.setattr(os, "ftruncate", failing_truncate)
    with pytest.raises(OSError, match="No space"):
        file.append(b"12345")
    torn = (tmp_path / "f").read_bytes()
    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "ftruncate", truncate)
    file.append(b"de")
    file.close()

    assert torn == b"abc12"
    assert (tmp_path / "f").read_bytes() == b"abcde"


def test_rewriting_changes_nothing_that_is_read(tmp_path: Path) -> None:
    file = DiskFiles(tmp_path).open_file("f")
    data = os.urandom(3 << 20)
    file.append(data)
    file.rewrite(5)
    file.sync()
    file.close()

    assert (tmp_path / "f").read_bytes() == data
