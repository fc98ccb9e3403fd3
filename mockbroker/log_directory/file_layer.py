"""What log directories need of a file system. Paths are relative to the directory, with `/`.

Every method raises OSError as the system does.
"""

from __future__ import annotations

from typing import Protocol

Data = bytes | bytearray | memoryview


class OpenFile(Protocol):
    """A file that grows at its end and is read anywhere."""

    @property
    def size(self) -> int:
        """Bytes of the file."""

    def read(self, position: int, size: int) -> bytes:
        """The bytes from a position on, fewer at the end of the file."""

    def append(self, data: Data) -> None:
        """Write all of it behind the end; if that fails the file is as before."""

    def truncate(self, size: int) -> None:
        """Cut the file."""

    def rewrite(self, position: int) -> None:
        """Write the bytes from a position on again: after a sync has failed, the next one would not write them."""

    def sync(self) -> None:
        """Return when everything is on the disk."""

    def close(self) -> None:
        """Close it; closing twice is no error."""


class FileLayer(Protocol):
    """The files and folders of one log directory."""

    def list_names(self, folder: str) -> list[str]:
        """The sorted names in a folder, "" for the directory itself."""

    def create_folder(self, folder: str) -> None:
        """Create a folder, unless it exists."""

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with everything in it."""

    def open_file(self, path: str) -> OpenFile:
        """A file for reading and appending, created if there is none."""

    def read_file(self, path: str) -> bytes | None:
        """The contents, None if there is no such file."""

    def write_file(self, path: str, data: Data, *, sync: bool = False) -> None:
        """Replace a file as a whole: after a crash it has either its old contents or these."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder another name; a file of that name is replaced."""

    def link(self, path: str, new: str) -> None:
        """Give a file a second name: both are one file. A file of that name is replaced."""

    def is_same_file(self, path: str, other: str) -> bool:
        """Return whether two names exist and are of one file."""

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""

    def sync_folder(self, folder: str) -> None:
        """Return when the names in a folder are on the disk."""
