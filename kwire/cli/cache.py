"""``kwire cache``: what kwire keeps in the user's cache directory, and its removal."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kwire.cli.exit_codes import SUCCESS
from kwire.cli.progress import format_size
from kwire.escape import one_line
from kwire.user_cache import cache_root

#: What the folders below it have, by their names.
_CONTENTS = {
    "index": "indexes of large captures, at most 8 GB",
    "java": "classes of Spark, which later reports map (about 170 MB each, at most 2), and launchers",
}


class CacheFolder(NamedTuple):
    """A folder with the size of its files, bytes, and their number."""

    path: Path
    what: str
    size: int
    files: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``kwire cache``."""
    parser.epilog = "The folder is XDG_CACHE_HOME/kwire, by default ~/.cache/kwire; what is missing is made again."
    parser.add_argument("--clear", action="store_true", help="remove all of it")


def run(args: argparse.Namespace) -> int:
    """Print each folder with its size, or remove what is in it."""
    folders = list(find_folders(os.environ))
    for folder in folders:
        files = f"{folder.files} file{'' if folder.files == 1 else 's'}"
        verb = "removed " if args.clear else ""
        if args.clear:
            clear_folder(folder.path)
        print(one_line(f"{verb}{format_size(folder.size)} in {files}: {folder.path} ({folder.what})"))
    if not folders:
        print(one_line(f"nothing in {cache_root(os.environ)}"))
    return SUCCESS


def find_folders(environ: Mapping[str, str]) -> Iterator[CacheFolder]:
    """The folders that exist. Links are not followed."""
    for name, what in _CONTENTS.items():
        path = cache_root(environ) / name
        if path.is_dir() and not path.is_symlink():
            sizes = [os.lstat(file).st_size for file in _files_in(path)]
            yield CacheFolder(path, what, sum(sizes), len(sizes))


def clear_folder(folder: Path) -> None:
    """Remove files and folders below a folder, and the folder. Running programs keep the files that they map."""
    for path, folders, files in os.walk(folder, topdown=False):
        for name in files:
            Path(path, name).unlink(missing_ok=True)
        for name in folders:
            inner = Path(path, name)
            inner.unlink() if inner.is_symlink() else inner.rmdir()
    folder.rmdir()


def _files_in(folder: Path) -> Iterator[Path]:
    for path, _, files in os.walk(folder):
        yield from (Path(path, name) for name in files)
