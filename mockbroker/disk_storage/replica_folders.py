"""`ReplicaFolders`: the folder of a partition in the log directory of each node with a replica.

The replicas of a partition share one log (docs/decisions/replicas-share-a-log.md). Its files are in the first folder;
the other folders have hard links to them, so that each byte is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec

from mockbroker.disk_storage.open_files import OpenFiles
from mockbroker.log_directory.file_layer import Data, FileLayer

P = ParamSpec("P")


class ReplicaFolders:
    """The folders of one partition. report: called with a line when a link cannot be made.

    Changes of the first folder raise OSError. A folder in which a link fails is given up until `set_folders`: it is
    removed, so that no folder has an incomplete log.
    """

    def __init__(self, open_files: OpenFiles, folders: Sequence[str], report: Callable[[str], None]) -> None:
        self.open_files = open_files
        self.files: FileLayer = open_files.files
        self.first = folders[0]
        self._others = [folder for folder in folders if folder != self.first]
        self.report = report

    @property
    def folders(self) -> list[str]:
        """All of them, the first one first."""
        return [self.first, *self._others]

    def is_in(self, directory: str) -> bool:
        """Return whether there is a folder in a log directory."""
        return any(folder.startswith(f"{directory}/") for folder in self.folders)

    def path(self, name: str) -> str:
        """The path of a file in the first folder."""
        return f"{self.first}/{name}"

    def create_file(self, name: str) -> None:
        """Create a file, unless it exists."""
        self.open_files.find_file(self.path(name))
        self._link(name)

    def write_file(self, name: str, data: Data) -> None:
        """Replace a file as a whole."""
        self.open_files.close_file(self.path(name))
        self.files.write_file(self.path(name), data)
        self._link(name)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name; a file of that name is replaced."""
        self.open_files.close_file(self.path(old))
        self.open_files.close_file(self.path(new))
        self.files.rename(self.path(old), self.path(new))
        for folder in list(self._others):
            self._change(folder, self.files.remove, f"{folder}/{old}")
        self._link(new)

    def retire(self, name: str, suffix: str) -> str | None:
        """Give a file that is not used any more a suffix, in the first folder only; returns its path, or None."""
        path = self.path(name)
        self.open_files.close_file(path)
        try:
            self.files.rename(path, path + suffix)
        except FileNotFoundError:
            return None
        for folder in list(self._others):
            self._change(folder, self.files.remove, f"{folder}/{name}")
        return path + suffix

    def exists(self, name: str) -> bool:
        """Return whether there is such a file in the first folder."""
        return name in self.files.list_names(self.first)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        self.open_files.close_file(self.path(name))
        self.files.remove(self.path(name))
        for folder in list(self._others):
            self._change(folder, self.files.remove, f"{folder}/{name}")

    def create_folders(self) -> None:
        """Create the folders that do not exist, and link what is missing or different."""
        for folder in self.folders:
            self.files.create_folder(folder)
        names = self.files.list_names(self.first)
        for folder in list(self._others):
            self._change(folder, self._link_all, folder, names)

    def set_folders(self, folders: Sequence[str]) -> list[str]:
        """Have these folders from now on: the replicas have been reassigned. Returns those that are not used any more.

        The first one stays the first while it is one of them. Raises: OSError.
        """
        if set(folders) == {self.first, *self._others}:
            return []
        unused = [folder for folder in self.folders if folder not in folders]
        self._others = [folder for folder in folders if folder != self.first]
        self.create_folders()
        if self.first not in folders:
            self.open_files.close_folder(self.first)
            self.first = self._others.pop(0)
        return unused

    def _link_all(self, folder: str, names: Sequence[str]) -> None:
        for name in set(self.files.list_names(folder)) - set(names):
            self.files.remove(f"{folder}/{name}")
        for name in names:
            if not self.files.is_same_file(self.path(name), f"{folder}/{name}"):
                self.files.link(self.path(name), f"{folder}/{name}")

    def _link(self, name: str) -> None:
        for folder in list(self._others):
            self._change(folder, self.files.link, self.path(name), f"{folder}/{name}")

    def _change(self, folder: str, change: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Change a folder that has links; without success it is removed."""
        try:
            change(*args, **kwargs)
        except OSError as error:
            self.report(f"{folder}: {error}; the replica has no files until the next start")
            self._others.remove(folder)
            try:
                self.files.remove_folder(folder)
            except FileNotFoundError:
                pass  # It was missing: that is why the link failed.
            except OSError as removal_error:
                self.report(f"{folder}: cannot be removed: {removal_error}")
