"""Inputs other than a complete file: pipes, files that grow and are replaced, and large files with a byte count."""

from __future__ import annotations

import glob
import io
import os
import re
import select
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.files.source import KeyLogSink
from kwire.capture.model import NO_PACKET, CaptureIssue, NoPacket, Packet
from kwire.cli.interrupt import StopSignal

# In the names of captures, before suffixes of `tcpdump -C` and of compression: .pcap, .pcapng, .cap. Other files of a
# folder are ignored.
_CAPTURE = re.compile(r"\.p?cap")
# How often a file is checked for new data: not noticeable to the user, and no load for the machine.
_POLL_SECONDS = 0.2
# After this time without new data, buffered rows are printed.
_IDLE_SECONDS = 0.05
# How many bytes of a file's start are stored: its header, and the time of the first packet.
_FILE_START_SIZE = 1024
# For how many files. In a longer ring the oldest file would be read again when it is touched.
_FILE_STARTS_MAX = 10_000


def is_stream(path: str) -> bool:
    """Whether the input may block: a pipe, a socket, a terminal."""
    try:
        status = os.fstat(sys.stdin.fileno()) if path == "-" else os.stat(path)
    except (OSError, ValueError, AttributeError):
        # A missing file raises its error when it is opened; a replacement of stdin in a test does not block.
        return False
    return any(kind(status.st_mode) for kind in (stat.S_ISFIFO, stat.S_ISSOCK, stat.S_ISCHR))


def is_read_by_follow(path: str, output: str) -> bool:
    """Whether following `path` would read the file that is about to be written."""
    for output_path in (os.path.abspath(output), os.path.realpath(output)):
        folder, name = os.path.split(output_path)
        if os.path.isdir(path):
            is_read = os.path.realpath(folder) == os.path.realpath(path) and bool(_CAPTURE.search(name))
        elif os.path.lexists(path) or not glob.has_magic(path):
            is_read = output_path == os.path.realpath(path)
        else:
            is_read = PurePath(output_path).match(os.path.abspath(path))
        if is_read:
            return True
    return False


class PipeInput:
    """A pipe, read as data arrives; `idle` is called before a blocking wait, to print buffered rows."""

    def __init__(self, file: io.FileIO | None, name: str, stop: StopSignal, idle: Callable[[], None]) -> None:
        """`file` is closed by the caller; None if the stop was requested before the other end was opened."""
        self._file = file
        self.name = name
        self._stop = stop
        self._idle = idle

    def read(self, size: int = -1, /) -> bytes:
        """Available data, at most `size` bytes; empty at the end, or when a stop is requested."""
        file = self._file
        if file is None:
            return b""
        ready = self._stop.wait_for(lambda: _is_ready(file, _IDLE_SECONDS))
        if ready is False:
            self._idle()
        while ready is False:
            ready = self._stop.wait_for(lambda: _is_ready(file, self._stop.seconds_left))
        return (self._stop.wait_for(lambda: file.read(size)) or b"") if ready else b""

    read1 = read

    def is_ready(self) -> bool:
        """Whether a read returns at once."""
        return self._file is None or self._stop.is_requested or _is_ready(self._file, 0)


class CountedFile:
    """A file that reports how many bytes were read, and unpacked if it is compressed."""

    def __init__(
        self, path: str, on_progress: Callable[[int], None], on_unpacked: Callable[[int], None] | None = None
    ) -> None:
        """`on_progress` is called with the bytes read so far, after every read; `on_unpacked` with those unpacked."""
        self._file = io.FileIO(path)
        self.name = os.fsencode(path).decode("utf-8", "backslashreplace")
        self._on_progress = on_progress
        self.on_unpacked = on_unpacked
        self._count = 0

    def rewind(self) -> None:
        """Read it from its beginning again."""
        self._file.seek(0)
        self._count = 0

    def read(self, size: int = -1, /) -> bytes:
        """Read from the file."""
        data = self._file.read(size)
        self._count += len(data)
        self._on_progress(self._count)
        return data

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class FollowedCapture:
    """A capture that is being written: its packets as they arrive, then those of the file that replaces it.

    The path may be a folder or a pattern: then reading starts with the latest file and continues with those written
    after it, as by `tcpdump -C` and `dumpcap -b`.
    """

    def __init__(self, path: str, stop: StopSignal, idle: Callable[[], None], unpacked_max: int | None = None) -> None:
        """Nothing is opened yet; the file need not exist."""
        self.name = path
        self._stop = stop
        self._idle = idle
        self._unpacked_max = unpacked_max
        # The first bytes of files that were read, by device and inode. Inodes are reused, and files of a ring are
        # overwritten: then the first packet differs.
        self._file_starts: dict[tuple[int, int], bytes] = {}

    @property
    def is_stopped(self) -> bool:
        """Whether a stop is requested."""
        return self._stop.is_requested

    def packets(self, keys: KeyLogSink | None) -> Iterator[Packet | CaptureIssue | NoPacket]:
        """The packets of the files in order, until a stop is requested."""
        last_file: _FileSnapshot | None = None
        while (opened := self._next_file(last_file)) is not None:
            with opened as file:
                growing_file = _GrowingFile(file, self)
                file_start = b""
                for packet in read_packets(growing_file, keys, self._unpacked_max, with_markers=True):
                    # If reading stops in the middle of a packet on request, the file is not damaged.
                    if isinstance(packet, CaptureIssue) and packet.kind == "file_truncated" and self._stop.is_requested:
                        continue
                    if packet is not NO_PACKET:
                        file_start = file_start or os.pread(file.fileno(), _FILE_START_SIZE, 0)
                    yield packet
                    if self._stop.is_requested:
                        return
                # A file that was truncated and is written again is its own successor.
                last_file = None if growing_file.was_truncated else growing_file.snapshot()
                if last_file is not None and file_start:
                    self._file_starts[_file_id(last_file.status)] = file_start
                    if len(self._file_starts) > _FILE_STARTS_MAX:
                        del self._file_starts[next(iter(self._file_starts))]
            yield NO_PACKET

    def find_successor(self, snapshot: _FileSnapshot) -> str | None:
        """The file written after this one, if there is one."""
        for path in self._candidates():
            try:
                status = os.stat(path)
            except OSError:
                continue
            # Files with equal times are ordered by name. A file with the same path as another comes after it.
            is_next = path == snapshot.path or (status.st_mtime_ns, path) > (snapshot.status.st_mtime_ns, snapshot.path)
            if is_next and _file_id(status) != _file_id(snapshot.status) and not self._was_read(path, status):
                return path
        return None

    def wait_for_more(self) -> bool:
        """Print buffered rows and wait briefly; False when a stop is requested."""
        self._idle()
        self._stop.sleep(_POLL_SECONDS)
        return not self._stop.is_requested

    def _was_read(self, path: str, status: os.stat_result) -> bool:
        file_start = self._file_starts.get(_file_id(status))
        if file_start is None:
            return False
        try:
            with open(path, "rb") as file:
                return file.read(len(file_start)) == file_start
        except FileNotFoundError:
            # The next check reads the current state.
            return True

    def _next_file(self, last_file: _FileSnapshot | None) -> io.FileIO | None:
        while True:
            path = self.find_successor(last_file) if last_file is not None else next(reversed(self._candidates()), None)
            if path is not None:
                try:
                    return io.FileIO(path)
                except FileNotFoundError:
                    # The file was removed after the listing.
                    pass
            if not self.wait_for_more():
                return None

    def _candidates(self) -> list[str]:
        """The files that match the path, ordered by the time of the last write."""
        if os.path.isdir(self.name):
            entries = Path(self.name).iterdir()
            files = [str(entry) for entry in entries if entry.is_file() and _CAPTURE.search(entry.name)]
        elif os.path.lexists(self.name) or not glob.has_magic(self.name):
            files = [self.name] if os.path.exists(self.name) else []
        else:
            files = [match for match in glob.glob(self.name) if os.path.isfile(match)]
        return sorted(files, key=_write_time)


class _FileSnapshot(NamedTuple):
    """A file that was read to its end, with its status at that time."""

    path: str
    status: os.stat_result


class _GrowingFile:
    """One of the files, read to its end, and further when it grows."""

    def __init__(self, file: io.FileIO, capture: FollowedCapture) -> None:
        self._file = file
        self._capture = capture
        self._is_last_read = False
        self.was_truncated = False
        self.name = capture.name

    def read(self, size: int = -1, /) -> bytes:
        """Available data; empty when another file has replaced this one, or when a stop is requested."""
        while True:
            data = self._file.read(size) or b""
            if data or self._is_last_read:
                return data
            snapshot = self.snapshot()
            # Data written between the last read and the replacement must not be lost: one more read follows.
            self.was_truncated = snapshot.status.st_size < self._file.seek(0, os.SEEK_CUR)
            self._is_last_read = self.was_truncated or self._capture.find_successor(snapshot) is not None
            if not self._is_last_read and not self._capture.wait_for_more():
                return b""

    read1 = read

    def is_ready(self) -> bool:
        """Whether a read returns at once."""
        snapshot = self.snapshot()
        return (
            self._is_last_read
            or self._capture.is_stopped
            or snapshot.status.st_size != self._file.seek(0, os.SEEK_CUR)
            or self._capture.find_successor(snapshot) is not None
        )

    def snapshot(self) -> _FileSnapshot:
        """The path and current status of the file."""
        return _FileSnapshot(str(self._file.name), os.fstat(self._file.fileno()))


def _file_id(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_ready(file: io.FileIO, seconds: float | None) -> bool:
    return bool(select.select([file], [], [], seconds)[0])


def _write_time(path: str) -> tuple[int, str]:
    try:
        return os.stat(path).st_mtime_ns, path
    except OSError:
        return 0, path
