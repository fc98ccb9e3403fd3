"""Files of rotated captures: which are finished, in which order they were captured, which were only renamed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import BinaryIO, NamedTuple

from kwire.spark import paths
from kwire.spark.source.capture_times import first_packet_ts


class FinishedFile(NamedTuple):
    """A file that is no longer written. `first_ts`: time of its first packet, nanoseconds; 0 if it has none."""

    path: str
    first_ts: int
    size: int

    @property
    def identity(self) -> tuple[str, int]:
        """Identifies the file, also where a ring of captures reuses a name."""
        return self.path, self.first_ts


class CaptureFolder:
    """Lists files by names, directories and patterns; the start of an unchanged file is read only once."""

    def __init__(self, names: Iterable[str], *, closed_after_s: float) -> None:
        """A file is finished when it has not changed for `closed_after_s` seconds of this machine's clock."""
        self._names = list(names)
        self._closed_after_s = closed_after_s
        self._known: dict[str, tuple[int, int, FinishedFile]] = {}

    def finished_files(self) -> list[FinishedFile]:
        """The finished files that exist now, ordered by first packet, or by last change if they have no packets."""
        now, files = time.time(), []
        known: dict[str, tuple[int, int, FinishedFile]] = {}
        for path in paths.existing_files(self._names):
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue  # The file was deleted by another process after the listing.
            if not status.st_size or now - status.st_mtime < self._closed_after_s:
                continue
            size, mtime, file = self._known.get(path, (-1, -1, None))
            if file is None or (size, mtime) != (status.st_size, status.st_mtime_ns):
                file = FinishedFile(path, first_packet_ts(path), status.st_size)
            known[path] = status.st_size, status.st_mtime_ns, file
            files.append(file)
        self._known = known
        return sorted(files, key=lambda file: (file.first_ts or known[file.path][1], file.path))


class FilePrefix:
    """The first bytes of an open file, as a file object."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        """Limit `file` to its next `size` bytes."""
        self._file = file
        self._remaining = size

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes; none at the end."""
        data = self._file.read(self._remaining if size < 0 else min(size, self._remaining))
        self._remaining -= len(data)
        return data


class RenameDetector:
    """Distinguishes a file that was read under a name that no longer exists from a new one."""

    def __init__(self, read: Iterable[FinishedFile], existing: Iterable[FinishedFile]) -> None:
        """`read`: the files that were read before; `existing`: the files that exist now."""
        existing_identities = {file.identity for file in existing}
        removed = [file for file in read if file.first_ts and file.identity not in existing_identities]
        self._contents = {(file.first_ts, file.size) for file in removed}
        self._identities = {file.identity for file in removed}

    def is_renamed(self, file: FinishedFile) -> bool:
        """Whether it is a removed file: same first packet and size, or the compressed form of that file."""
        uncompressed_name = file.path.removesuffix(".gz").removesuffix(".zst")
        is_compressed = uncompressed_name != file.path and (uncompressed_name, file.first_ts) in self._identities
        return is_compressed or (file.first_ts, file.size) in self._contents
