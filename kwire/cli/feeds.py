"""Inputs that take their time: pipes, files that grow and are replaced, long files with a count of what was read."""

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

from kwire.capture.keylog import KeyLog
from kwire.capture.packets import packets
from kwire.capture.values import Packet, Trouble
from kwire.cli.stop import Stop

# In the names of captures, before what `tcpdump -C` and packers add: .pcap, .pcapng, .cap. What else a folder holds is
# not theirs.
_CAPTURE = re.compile(r"\.p?cap")
# How often a file is looked at for more. Whoever watches it does not notice, and the machine does not either.
_LOOK_SECONDS = 0.2
# So long nothing may come before what is held is shown.
_IDLE_SECONDS = 0.05
# So much of the beginning of a file is remembered: its head, and the time of the first packet.
_HEAD_SIZE = 1024


def is_endless(path: str) -> bool:
    """Whether what is read may come slowly: a pipe, a socket, a terminal."""
    try:
        found = os.fstat(sys.stdin.fileno()) if path == "-" else os.stat(path)
    except (OSError, ValueError, AttributeError):
        # No such file is told when it is opened; what stands in for stdin in a test is at hand.
        return False
    return any(kind(found.st_mode) for kind in (stat.S_ISFIFO, stat.S_ISSOCK, stat.S_ISCHR))


def is_followed(path: str, output: str) -> bool:
    """Whether a file that is about to be written would be read by whoever follows the path."""
    for place in (os.path.abspath(output), os.path.realpath(output)):
        folder, name = os.path.split(place)
        if os.path.isdir(path):
            is_read = os.path.realpath(folder) == os.path.realpath(path) and bool(_CAPTURE.search(name))
        elif os.path.lexists(path) or not glob.has_magic(path):
            is_read = place == os.path.realpath(path)
        else:
            is_read = PurePath(place).match(os.path.abspath(path))
        if is_read:
            return True
    return False


class Pipe:
    """A pipe, read as it comes: before it is waited for, `idle` may show what is there."""

    def __init__(self, file: io.FileIO | None, name: str, stop: Stop, idle: Callable[[], None]) -> None:
        """`file` is the owner's to close; None, where it was time to stop before anybody opened its other end."""
        self._file = file
        self.name = name
        self._stop = stop
        self._idle = idle

    def read(self, size: int = -1, /) -> bytes:
        """What there is, at most `size` bytes; none at the end, or when it is time to stop."""
        file = self._file
        if file is None:
            return b""
        ready = self._stop.waiting(lambda: _is_ready(file, _IDLE_SECONDS))
        if ready is False:
            self._idle()
        while ready is False:
            ready = self._stop.waiting(lambda: _is_ready(file, self._stop.seconds_left))
        return (self._stop.waiting(lambda: file.read(size)) or b"") if ready else b""

    read1 = read


class Counted:
    """A file of which somebody wants to know how far it is read."""

    def __init__(self, path: str, tell: Callable[[int], None]) -> None:
        """`tell` is given the bytes read so far, after every read."""
        self._file = io.FileIO(path)
        self.name = os.fsencode(path).decode("utf-8", "backslashreplace")
        self._tell = tell
        self._count = 0

    def read(self, size: int = -1, /) -> bytes:
        """As of the file."""
        data = self._file.read(size)
        self._count += len(data)
        self._tell(self._count)
        return data

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Following:
    """A capture that is being written: its packets as they come, then those of the file that takes its place.

    The path may be a folder or a pattern: then it is followed from the latest file on to those that are written after
    it, as `tcpdump -C` and `dumpcap -b` write them.
    """

    def __init__(self, path: str, stop: Stop, idle: Callable[[], None]) -> None:
        """Nothing is opened yet; it need not exist yet."""
        self.name = path
        self._stop = stop
        self._idle = idle
        # How files began that were read, by device and inode. Inodes are given anew, and a ring of files is written
        # over: then another packet comes first.
        self._heads: dict[tuple[int, int], bytes] = {}

    def packets(self, keys: KeyLog | None) -> Iterator[Packet | Trouble]:
        """The packets of one file after the other, until it is time to stop."""
        last: _Left | None = None
        while (found := self._next_file(last)) is not None:
            with found as file:
                growing = _Growing(file, self)
                head = b""
                for each in packets(growing, keys):
                    # A file that is left in the middle of a packet, since nobody waits for more, is not damaged.
                    if isinstance(each, Trouble) and each.kind == "file_truncated" and self._stop.is_asked:
                        continue
                    head = head or os.pread(file.fileno(), _HEAD_SIZE, 0)
                    yield each
                    if self._stop.is_asked:
                        return
                # A file that was emptied and is written anew is its own successor.
                last = None if growing.was_emptied else growing.left()
                if last is not None and head:
                    self._heads[_identity(last.found)] = head

    def replacement(self, of: _Left) -> str | None:
        """The file that comes after this one, if there is one already."""
        for path in self._candidates():
            try:
                found = os.stat(path)
            except OSError:
                continue
            # Files of one time come by their names. What takes the very place of another comes after it.
            is_next = path == of.path or (found.st_mtime_ns, path) > (of.found.st_mtime_ns, of.path)
            if is_next and _identity(found) != _identity(of.found) and not self._was_read(path, found):
                return path
        return None

    def rest(self) -> bool:
        """Show what is held, and wait a moment. False when it is time to stop."""
        self._idle()
        self._stop.sleep(_LOOK_SECONDS)
        return not self._stop.is_asked

    def _was_read(self, path: str, found: os.stat_result) -> bool:
        head = self._heads.get(_identity(found))
        if head is None:
            return False
        try:
            with open(path, "rb") as file:
                return file.read(len(head)) == head
        except FileNotFoundError:
            # The next look will tell what is there then.
            return True

    def _next_file(self, last: _Left | None) -> io.FileIO | None:
        while True:
            path = self.replacement(last) if last is not None else next(iter(reversed(self._candidates())), None)
            if path is not None:
                try:
                    return io.FileIO(path)
                except FileNotFoundError:
                    # It was taken away again.
                    pass
            if not self.rest():
                return None

    def _candidates(self) -> list[str]:
        """The files that the path stands for, in the order in which they were last written."""
        if os.path.isdir(self.name):
            found = [str(each) for each in Path(self.name).iterdir() if each.is_file() and _CAPTURE.search(each.name)]
        elif os.path.lexists(self.name) or not glob.has_magic(self.name):
            found = [self.name] if os.path.exists(self.name) else []
        else:
            found = [each for each in glob.glob(self.name) if os.path.isfile(each)]
        return sorted(found, key=_written)


class _Left(NamedTuple):
    """A file that is read to its end, as it was found then."""

    path: str
    found: os.stat_result


class _Growing:
    """One of the files, read to its end, and further when it grows."""

    def __init__(self, file: io.FileIO, of: Following) -> None:
        self._file = file
        self._following = of
        self._is_last_look = False
        self.was_emptied = False
        self.name = of.name

    def read(self, size: int = -1, /) -> bytes:
        """What there is; none when another file has taken the place of this one, or when it is time to stop."""
        while True:
            data = self._file.read(size) or b""
            if data or self._is_last_look:
                return data
            here = self.left()
            # What was written after the last look and before the file was left must not be lost.
            self.was_emptied = here.found.st_size < self._file.tell()
            self._is_last_look = self.was_emptied or self._following.replacement(here) is not None
            if not self._is_last_look and not self._following.rest():
                return b""

    read1 = read

    def left(self) -> _Left:
        """The file as it is now."""
        return _Left(str(self._file.name), os.fstat(self._file.fileno()))


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _is_ready(file: io.FileIO, seconds: float | None) -> bool:
    return bool(select.select([file], [], [], seconds)[0])


def _written(path: str) -> tuple[int, str]:
    try:
        return os.stat(path).st_mtime_ns, path
    except OSError:
        return 0, path
