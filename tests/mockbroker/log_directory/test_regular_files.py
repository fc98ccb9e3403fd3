"""Nothing outside of a data directory is read or written, and no open waits: links, pipes and folders are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mockbroker.log_directory.directory_lock import DirectoryLock
from mockbroker.log_directory.disk_files import DiskFiles
from mockbroker.log_directory.regular_files import RefusedFileError

_SECRET = b"of somebody else"


def _link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def _pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path, _: Path) -> None:
    path.mkdir()


_KINDS = {"symbolic link": _link, "named pipe": _pipe, "folder": _folder}
_CALLS: dict[str, Callable[[DiskFiles], object]] = {
    "open": lambda files: files.open_file("node-0/f"),
    "read": lambda files: files.read_file("node-0/f"),
    "link": lambda files: files.link("node-0/f", "node-0/g"),
}


def _outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.write_bytes(_SECRET)
    return outside


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("call", _CALLS)
def test_what_is_no_regular_file_is_refused(tmp_path: Path, kind: str, call: str) -> None:
    outside, files = _outside(tmp_path), DiskFiles(tmp_path / "data")
    files.create_folder("node-0")
    _KINDS[kind](tmp_path / "data" / "node-0" / "f", outside)

    with pytest.raises(RefusedFileError, match=rf"node-0/f: a {kind}.*, not a file; remove it"):
        _CALLS[call](files)
    assert outside.read_bytes() == _SECRET


@pytest.mark.parametrize("kind", _KINDS)
def test_a_lock_that_is_no_regular_file_is_refused_and_its_target_stays(tmp_path: Path, kind: str) -> None:
    outside = _outside(tmp_path)
    _KINDS[kind](tmp_path / ".lock", outside)

    with pytest.raises(RefusedFileError, match=rf"\.lock: a {kind}"):
        DirectoryLock(tmp_path)
    assert outside.read_bytes() == _SECRET


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(_SECRET)
    files = DiskFiles(tmp_path / "data")
    files.create_folder("node-0")
    (tmp_path / "data" / "node-0" / "t-0").symlink_to(outside)

    for call in (
        lambda: files.create_folder("node-0/t-0"),
        lambda: files.list_names("node-0/t-0"),
        lambda: files.read_file("node-0/t-0/f"),
        lambda: files.write_file("node-0/t-0/f", b""),
        lambda: files.remove("node-0/t-0/f"),
        lambda: files.rename("node-0/t-0/f", "node-0/g"),
        lambda: files.sync_folder("node-0/t-0"),
    ):
        with pytest.raises(RefusedFileError, match=r"t-0: a symbolic link, which is not followed, not a folder"):
            call()
    files.remove_folder("node-0/t-0")

    assert files.list_names("node-0") == []
    assert (outside / "f").read_bytes() == _SECRET


def test_a_temporary_file_that_is_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    outside, files = _outside(tmp_path), DiskFiles(tmp_path / "data")
    for name in ("f", "f.tmp"):
        (tmp_path / "data" / name).symlink_to(outside)
    files.write_file("f", b"new")

    assert files.read_file("f") == b"new"
    assert outside.read_bytes() == _SECRET
