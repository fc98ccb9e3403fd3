"""`OpenFiles`: a limited number of open files; the ones that were not used for longest are closed."""

from __future__ import annotations

from collections import OrderedDict

from mockbroker.log_directory.file_layer import FileLayer, OpenFile

#: Well below the usual limit of 1,024 for a process, which connections need as well.
OPEN_MAX = 256


class OpenFiles:
    """Opens files on first use. open_max: how many stay open."""

    def __init__(self, files: FileLayer, *, open_max: int = OPEN_MAX) -> None:
        self.files = files
        self._open_max = open_max
        self._open: OrderedDict[str, OpenFile] = OrderedDict()

    def find_file(self, path: str) -> OpenFile:
        """The open file, created if it does not exist; it is valid until the next call. Raises: OSError."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        if len(self._open) >= self._open_max:
            self._open.popitem(last=False)[1].close()
        file = self._open[path] = self.files.open_file(path)
        return file

    def close_file(self, path: str) -> None:
        """Close a file, if it is open: it is going to be renamed or removed."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def close_folder(self, folder: str) -> None:
        """Close all files of a folder."""
        for path in [path for path in self._open if path.startswith(f"{folder}/")]:
            self.close_file(path)

    def close_all(self) -> None:
        """Close all files."""
        for file in self._open.values():
            file.close()
        self._open.clear()
