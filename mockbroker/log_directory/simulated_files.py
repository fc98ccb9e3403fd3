"""Files in memory that fail on demand, and lose what a crash of the machine loses; for tests and the simulator.

Two images of each file: what the system has, which a killed process leaves behind, and what is on the disk, which a
crash of the machine leaves behind: the bytes and names up to the last `sync`, and possibly a part of what came after.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterable
from enum import Enum

from mockbroker.log_directory.file_layer import Data


class FileFault(Enum):
    """What goes wrong at one call."""

    WRITE_FAILS = "write fails"
    SHORT_WRITE = "short write"
    SYNC_FAILS = "sync fails"
    BIT_FLIPS = "bit flips on read"
    PROCESS_ENDS = "the process ends"


class ProcessEnded(BaseException):  # Nothing in the process may handle it.
    """The process was killed in the middle of a call. Its files fail in the same way from then on."""


class _Contents(bytearray):
    """The bytes of a file, which stay the same object whatever its names are.

    is_unwritten: a sync of them has failed. is_replacing: they have replaced a file as a whole, and were not synced.
    """

    is_unwritten = False
    is_replacing = False


class SimulatedFiles:
    """Files in memory. choose_fault: asked before each call that can fail; capacity: bytes of the disk, None: no limit.

    After a failed write a file has its old size, as with a real disk. Where the process ends at a write, a part of it
    is there. on_fault: called for each fault that took effect, with None for a full disk. has_ended: these files
    cannot be used any more.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        choose_fault: Callable[[str], FileFault | None] = lambda _: None,
        capacity: int | None = None,
        on_fault: Callable[[FileFault | None], None] = lambda _: None,
    ) -> None:
        self.capacity = capacity
        self.rng = rng
        self._choose_fault = choose_fault
        self._on_fault = on_fault
        self.has_ended = False
        self._contents: dict[str, _Contents] = {}
        self._folders = {""}
        self._on_disk: dict[str, bytes] = {}
        self._folders_on_disk = {""}
        # The names in each folder, for the paths that were listed last.
        self._names: dict[str, set[str]] = {}
        self._listed: set[str] = set()

    @property
    def used(self) -> int:
        """Bytes of all files; one with several names counts once."""
        return sum(map(len, {id(data): data for data in self._contents.values()}.values()))

    def kill_process(self) -> SimulatedFiles:
        """What is left when the process is killed: everything. These files cannot be used any more."""
        left = self._copy_options()
        left._contents, left._on_disk = self._contents, self._on_disk
        left._folders, left._folders_on_disk = self._folders, self._folders_on_disk
        self.has_ended = True
        return left

    def _copy_options(self) -> SimulatedFiles:
        return SimulatedFiles(
            self.rng, choose_fault=self._choose_fault, capacity=self.capacity, on_fault=self._on_fault
        )

    def crash_machine(self) -> SimulatedFiles:
        """What is left when the machine loses power: synced bytes, and of later appends a part, or zeros for it.

        A file that was replaced as a whole has its old contents or the new ones.
        """
        left = self._copy_options()
        left._folders, left._folders_on_disk = set(self._folders_on_disk), set(self._folders_on_disk)
        # A file with several names is one file afterwards too.
        files: dict[int, str] = {}
        for path, synced in self._on_disk.items():
            first = files.setdefault(id(self._contents.get(path, path)), path)
            if first != path:
                left._contents[path], left._on_disk[path] = left._contents[first], left._on_disk[first]
                continue
            data, contents = _Contents(synced), self._contents.get(path)
            if contents is not None and contents.is_replacing:
                data = _Contents(self.rng.choice((synced, bytes(contents))))
                left._contents[path], left._on_disk[path] = data, bytes(data)
                continue
            later = bytes(self._contents.get(path, b"")[len(synced) :])
            if later and bytes(self._contents[path][: len(synced)]) == synced:
                kept = self.rng.randrange(len(later) + 1)
                data += later[:kept]
                # The size can be on the disk without the data.
                data += bytes(self.rng.choice((0, self.rng.randrange(len(later) - kept + 1))))
            left._contents[path] = data
            left._on_disk[path] = bytes(data)
        return left

    def list_names(self, folder: str) -> list[str]:
        """The sorted names in a folder."""
        self._check_folder(folder)
        paths = {*self._contents, *self._folders}
        if paths != self._listed:
            self._listed, self._names = paths, _list_by_folder(paths)
        return sorted(self._names.get(folder, ()))

    def create_folder(self, folder: str) -> None:
        """Create a folder, unless it exists."""
        if folder not in self._folders:
            self._check_change(folder)
        self._folders.add(folder)
        self._folders_on_disk.add(folder)

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with everything in it."""
        self._check_folder(folder)
        self._check_change(folder)
        for path in [path for path in self._contents if path.startswith(f"{folder}/")]:
            self.remove(path)
        self._folders.discard(folder)
        self._folders_on_disk.discard(folder)

    def open_file(self, path: str) -> SimulatedFile:
        """A file for reading and appending, created if there is none."""
        self._check_folder(_parent_of(path))
        if path not in self._contents:
            self._check_change(path)
            self._contents[path] = _Contents()
        return SimulatedFile(self, path)

    def read_file(self, path: str) -> bytes | None:
        """The contents, None if there is no such file."""
        data = self._contents.get(path)
        return None if data is None else self.flip_bits(bytes(data), path)

    def write_file(self, path: str, data: Data, *, sync: bool = False) -> None:
        """Replace a file as a whole."""
        self._check_folder(_parent_of(path))
        self.fail_write(path, len(data) - len(self._contents.get(path, b"")))
        self._contents[path] = _Contents(data)
        self._contents[path].is_replacing = True
        if sync:
            self.sync_file(path)

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder another name. On the disk too: journals order renames."""
        self._check_change(old)
        self._rename(old, new)

    def _rename(self, old: str, new: str) -> None:
        if old in self._folders:
            for folders in (self._folders, self._folders_on_disk):
                folders.discard(old)
                folders.add(new)
            for path in [path for path in self._contents if path.startswith(f"{old}/")]:
                self._rename(path, f"{new}{path[len(old) :]}")
            return
        if old not in self._contents:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        self._contents[new] = self._contents.pop(old)
        self._on_disk.pop(new, None)
        if old in self._on_disk:
            self._on_disk[new] = self._on_disk.pop(old)

    def link(self, path: str, new: str) -> None:
        """Give a file a second name, on the disk too. A file of that name is replaced."""
        self._check_folder(_parent_of(new))
        self._check_change(new)
        if path not in self._contents:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self._contents[new] = self._contents[path]
        self._on_disk.pop(new, None)
        if path in self._on_disk:
            self._on_disk[new] = self._on_disk[path]

    def is_same_file(self, path: str, other: str) -> bool:
        """Return whether two names exist and are of one file."""
        return path in self._contents and self._contents[path] is self._contents.get(other)

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        if path in self._contents:
            self._check_change(path)
        self._contents.pop(path, None)
        self._on_disk.pop(path, None)

    def sync_folder(self, folder: str) -> None:
        """The names in a folder are on the disk already."""
        self._check_folder(folder)

    def sync_file(self, path: str) -> None:
        """Put the contents of a file on the disk."""
        contents = self._contents[path]
        if self._take_fault(path, FileFault.SYNC_FAILS) is FileFault.SYNC_FAILS:
            if bytes(contents) != self._on_disk.get(path, b""):
                contents.is_unwritten = True
            raise OSError(errno.EIO, "simulated failure of fsync", path)
        if contents.is_unwritten:
            return  # The system counts the pages as written: it reports a failure once.
        contents.is_replacing = False
        synced = bytes(contents)
        for name in [name for name, data in self._contents.items() if data is contents]:
            self._on_disk[name] = synced

    def mark_written(self, path: str) -> None:
        """The bytes of a file are written again: the next sync puts them on the disk."""
        self._contents[path].is_unwritten = False

    def mark_cut(self, path: str) -> None:
        """A file was cut: if nothing is left of what a sync has failed for, the next sync reports the truth again."""
        if len(self._contents[path]) <= len(self._on_disk.get(path, b"")):
            self.mark_written(path)

    def contents_of(self, path: str) -> bytearray:
        """The bytes of a file, to be changed."""
        return self._contents[path]

    def fail_write(self, path: str, growth: int) -> None:
        """Raise the error of a write by which a file grows, if it fails. Raises: ProcessEnded."""
        fault = self._take_fault(path, FileFault.WRITE_FAILS, FileFault.SHORT_WRITE)
        if fault is not None:
            raise OSError(errno.EIO, f"simulated: {fault.value}", path)
        if self.capacity is not None and growth > 0 and self.used + growth > self.capacity:
            self._on_fault(None)
            raise OSError(errno.ENOSPC, "simulated: no space left", path)

    def require_process(self) -> None:
        """Raises: ProcessEnded."""
        if self.has_ended:
            raise ProcessEnded

    def _check_change(self, path: str) -> None:
        """A change of names: with a failing disk or at the end of the process it does not happen."""
        if self._take_fault(path, FileFault.WRITE_FAILS) is not None:
            raise OSError(errno.EIO, "simulated: write fails", path)

    def _take_fault(self, path: str, *possible: FileFault) -> FileFault | None:
        """The fault of a call, if it is one of the possible ones. Raises: ProcessEnded."""
        self.require_process()
        fault = self._choose_fault(path)
        if fault is FileFault.PROCESS_ENDS:
            self.has_ended = True
            raise ProcessEnded
        if fault not in possible:
            return None
        self._on_fault(fault)
        return fault

    def flip_bits(self, data: bytes, path: str) -> bytes:
        """The bytes as they are read: with a fault, one bit of them is wrong."""
        if not data or self._choose_fault(path) is not FileFault.BIT_FLIPS:
            return data
        self._on_fault(FileFault.BIT_FLIPS)
        changed = bytearray(data)
        changed[self.rng.randrange(len(changed))] ^= 1 << self.rng.randrange(8)
        return bytes(changed)

    def _check_folder(self, folder: str) -> None:
        if folder not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", folder)


class SimulatedFile:
    """An open file of `SimulatedFiles`."""

    def __init__(self, files: SimulatedFiles, path: str) -> None:
        self._files = files
        self._path = path

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self._files.contents_of(self._path))

    def read(self, position: int, size: int) -> bytes:
        """The bytes from a position on, fewer at the end of the file."""
        data = bytes(self._files.contents_of(self._path)[position : position + size])
        return self._files.flip_bits(data, self._path)

    def append(self, data: Data) -> None:
        """Write all of it behind the end; if that fails the file is as before."""
        contents, was_ended = self._files.contents_of(self._path), self._files.has_ended
        try:
            self._files.fail_write(self._path, len(data))
        except ProcessEnded:
            if not was_ended:  # The system was in the middle of it.
                contents.extend(data[: self._files.rng.randrange(len(data) + 1)])
            raise
        contents.extend(data)

    def truncate(self, size: int) -> None:
        """Cut the file. That needs no space, and does not fail."""
        self._files.require_process()
        del self._files.contents_of(self._path)[size:]
        self._files.mark_cut(self._path)

    def rewrite(self, position: int) -> None:
        """Write the bytes from a position on again."""
        self._files.fail_write(self._path, 0)
        self._files.mark_written(self._path)

    def sync(self) -> None:
        """Put everything on the disk."""
        self._files.sync_file(self._path)

    def close(self) -> None:
        """Nothing is held open."""


def _parent_of(path: str) -> str:
    return path.rpartition("/")[0]


def _list_by_folder(paths: Iterable[str]) -> dict[str, set[str]]:
    """The names in each folder, those of folders in it included."""
    names: dict[str, set[str]] = {}
    for path in paths:
        rest = path
        while rest:
            rest, _, name = rest.rpartition("/")
            names.setdefault(rest, set()).add(name)
    return names
