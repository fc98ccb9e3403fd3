"""A folder of captures that grows: which files are finished, and in which order they were captured."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import BinaryIO, NamedTuple

from kwire.capture.packets import packets
from kwire.capture.values import CaptureError, Packet
from kwire.spark import paths


class Finished(NamedTuple):
    """A file that nobody writes any more. `first_ts` is that of its first packet, nanoseconds; 0 where it has none."""

    path: str
    first_ts: int
    size: int

    @property
    def identity(self) -> tuple[str, int]:
        """What tells it from another file, also where a ring of captures uses a name again."""
        return self.path, self.first_ts


class Folder:
    """Looks at files by names, directories and patterns; what it has seen of a file it does not read again."""

    def __init__(self, names: Iterable[str], *, closed_after_s: float) -> None:
        """A file counts as finished when it has not changed for so many seconds of this machine's clock."""
        self._names = list(names)
        self._closed_after_s = closed_after_s
        self._known: dict[str, tuple[int, int, Finished]] = {}

    def finished(self) -> list[Finished]:
        """The finished files that are there now, in the order of their first packets; without any, of last changes."""
        now, found = time.time(), []
        known: dict[str, tuple[int, int, Finished]] = {}
        for path in paths.present(self._names):
            try:
                about = os.stat(path)
            except FileNotFoundError:
                continue  # Whoever keeps the folder small has just taken it away.
            if not about.st_size or now - about.st_mtime < self._closed_after_s:
                continue
            size, mtime, file = self._known.get(path, (-1, -1, None))
            if file is None or (size, mtime) != (about.st_size, about.st_mtime_ns):
                file = Finished(path, first_ts(path), about.st_size)
            known[path] = about.st_size, about.st_mtime_ns, file
            found.append(file)
        self._known = known
        return sorted(found, key=lambda file: (file.first_ts or known[file.path][1], file.path))


class Beginning:
    """The first bytes of an open file, as a file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        """So many of them."""
        self._file = file
        self._left = size

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes; none at the end."""
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


class Names:
    """Tells a file that was read under another name, which is gone, from one that is new."""

    def __init__(self, read: Iterable[Finished], there: Iterable[Finished]) -> None:
        """What was read before, and what is there now."""
        present = {file.identity for file in there}
        gone = [file for file in read if file.first_ts and file.identity not in present]
        self._contents = {(file.first_ts, file.size) for file in gone}
        self._names = {file.identity for file in gone}

    def is_renamed(self, file: Finished) -> bool:
        """Whether it is one of those that are gone: it begins when that did and is as long, or is that file packed."""
        unpacked = file.path.removesuffix(".gz").removesuffix(".zst")
        is_packed = unpacked != file.path and (unpacked, file.first_ts) in self._names
        return is_packed or (file.first_ts, file.size) in self._contents


def first_ts(path: str) -> int:
    """When the first packet was captured, nanoseconds; 0 for what is no capture, or has no packets."""
    try:
        return next((each.ts for each in packets(path) if isinstance(each, Packet)), 0)
    except (CaptureError, FileNotFoundError):
        return 0
