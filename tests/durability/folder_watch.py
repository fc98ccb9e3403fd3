"""`FolderWatch`: waits until a file with a certain name appears below a folder, by inotify of Linux."""

from __future__ import annotations

import ctypes
import os
import re
import select
import struct
import time
from pathlib import Path

_CREATE, _MOVED_TO = 0x100, 0x80
_IS_FOLDER = 0x40000000
_EVENT = struct.Struct("iIII")
_READ_SIZE = 1 << 16


class FolderWatch:
    """Sees the names that appear in a folder and all folders below it. Raises: OSError where there is no inotify."""

    def __init__(self, root: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._folders: dict[int, Path] = {}
        root.mkdir(exist_ok=True, parents=True)
        self._add(root)

    def _add(self, folder: Path) -> None:
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _CREATE | _MOVED_TO)
        if number < 0:
            return  # It has gone already.
        self._folders[number] = folder
        for path in folder.iterdir():
            if path.is_dir():
                self._add(path)

    def wait_for(self, pattern: re.Pattern[str], limit_s: float) -> bool:
        """Wait for a path that the pattern finds, and that appears from now on. Returns: whether there was one."""
        end_s = time.monotonic() + limit_s
        self._read(re.compile("(?!)"))
        while (left_s := end_s - time.monotonic()) > 0:
            select.select([self._descriptor], [], [], left_s)
            if self._read(pattern):
                return True
        return False

    def _read(self, pattern: re.Pattern[str]) -> bool:
        is_found = False
        while True:
            try:
                data = os.read(self._descriptor, _READ_SIZE)
            except BlockingIOError:
                return is_found
            at = 0
            while at < len(data):
                number, mask, _, size = _EVENT.unpack_from(data, at)
                at += _EVENT.size + size
                name = os.fsdecode(data[at - size : at].rstrip(b"\0"))
                path = self._folders.get(number, Path()) / name
                is_found |= pattern.search(str(path)) is not None
                if mask & _IS_FOLDER:
                    self._add(path)

    def close(self) -> None:
        """Stop watching."""
        os.close(self._descriptor)
