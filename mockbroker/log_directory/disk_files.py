"""The files of a log directory on disk."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from mockbroker.log_directory.file_layer import Data
from mockbroker.log_directory.formats.names import TEMPORARY
from mockbroker.log_directory.regular_files import FILE_MODE, open_regular, require_folder, require_regular

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
_REWRITTEN_SIZE = 1 << 20
#: The size is synced with the data, other times of the file are not needed.
_sync = getattr(os, "fdatasync", os.fsync)


class DiskFile:
    """An open file; its size is known, so that an append needs one call of the system."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._size = os.fstat(self._descriptor).st_size
        self._is_torn = False

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def read(self, position: int, size: int) -> bytes:
        """The bytes from a position on, fewer at the end of the file."""
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or position + len(data) >= self._size:
            return data
        parts = [data]
        while size > (have := sum(map(len, parts))) and (
            more := os.pread(self._descriptor, size - have, position + have)
        ):
            parts.append(more)
        return b"".join(parts)

    def append(self, data: Data) -> None:
        """Write all of it behind the end; if that fails the file is as before."""
        try:
            if self._is_torn:
                os.ftruncate(self._descriptor, self._size)
                self._is_torn = False
            written = os.write(self._descriptor, data)
            while written < len(data):
                written += os.write(self._descriptor, memoryview(data)[written:])
        except OSError:
            # Part of it may be behind the end; if it cannot be cut now, the next append does.
            self._is_torn = True
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
                self._is_torn = False
            raise
        self._size += len(data)

    def truncate(self, size: int) -> None:
        """Cut the file."""
        os.ftruncate(self._descriptor, size)
        self._size = size

    def rewrite(self, position: int) -> None:
        """Write the bytes from a position on again: after a sync has failed, the next one would not write them."""
        descriptor = open_regular(self._path, os.O_WRONLY)
        try:
            while position < self._size:
                os.lseek(descriptor, position, os.SEEK_SET)
                position += os.write(descriptor, self.read(position, min(_REWRITTEN_SIZE, self._size - position)))
        finally:
            os.close(descriptor)

    def sync(self) -> None:
        """Return when everything is on the disk."""
        _sync(self._descriptor)

    def close(self) -> None:
        """Close it; closing twice is no error."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class DiskFiles:
    """The files below a folder of the system, which is created with its parents if it does not exist.

    Nothing outside of it is read or written: symbolic links below it are refused, and so is what is no regular file.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        # Folders that are known to be no links.
        self._checked: set[str] = {"", "."}

    def _path(self, path: str) -> Path:
        """The path of a file, whose folders are none but folders. Raises: OSError."""
        folder = path.rpartition("/")[0]
        if folder not in self._checked:
            self._folder(folder)
        return self.root / path

    def _folder(self, folder: str) -> Path:
        """The path of a folder, if it and those above it are folders. Raises: OSError."""
        if folder not in self._checked:
            self._path(folder)
            require_folder(self.root / folder)
            self._checked.add(folder)
        return self.root / folder

    def _forget(self, folder: str) -> None:
        """A folder has another name now, or does not exist."""
        self._checked = {one for one in self._checked if one != folder and not one.startswith(f"{folder}/")}

    def list_names(self, folder: str) -> list[str]:
        """The sorted names in a folder."""
        return sorted(os.listdir(self._folder(folder)))

    def create_folder(self, folder: str) -> None:
        """Create a folder, unless it exists."""
        with suppress(FileExistsError):
            self._path(folder).mkdir()
        self._folder(folder)

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with everything in it; of a link only the link."""
        path = self._path(folder)
        self._forget(folder)
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()

    def open_file(self, path: str) -> DiskFile:
        """A file for reading and appending, created if there is none."""
        return DiskFile(self._path(path))

    def read_file(self, path: str) -> bytes | None:
        """The contents, None if there is no such file."""
        try:
            descriptor = open_regular(self._path(path), os.O_RDONLY)
        except FileNotFoundError:
            return None
        with open(descriptor, "rb") as file:
            return file.read()

    def write_file(self, path: str, data: Data, *, sync: bool = False) -> None:
        """Replace a file as a whole: after a crash it has either its old contents or these."""
        target = self._path(path)
        temporary = target.with_name(target.name + TEMPORARY)
        temporary.unlink(missing_ok=True)
        with open(os.open(temporary, _CREATE_FLAGS, FILE_MODE), "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(target)
        if sync:
            self.sync_folder(str(Path(path).parent))

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder another name; a file of that name is replaced."""
        self._path(old).replace(self._path(new))
        self._forget(old)

    def link(self, path: str, new: str) -> None:
        """Give a file a second name: both are one file. A file of that name is replaced."""
        source, target = self._path(path), self._path(new)
        target.unlink(missing_ok=True)
        require_regular(source, source.lstat())
        os.link(source, target)

    def is_same_file(self, path: str, other: str) -> bool:
        """Return whether two names exist and are of one file."""
        try:
            return os.path.samestat(self._path(path).lstat(), self._path(other).lstat())
        except FileNotFoundError:
            return False

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        self._path(path).unlink(missing_ok=True)

    def sync_folder(self, folder: str) -> None:
        """Return when the names in a folder are on the disk; Windows has no such call, and needs none."""
        if os.name == "nt":
            return
        descriptor = os.open(self._folder(folder), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
