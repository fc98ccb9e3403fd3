"""Resolve the names given by a user (files, globs, directories) to the capture files, in order."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

SUFFIXES = tuple(f"{suffix}{packed}" for suffix in (".pcap", ".pcapng", ".cap") for packed in ("", ".gz", ".zst"))
# A pattern never matches an index next to its capture.
SIDECAR_SUFFIX = ".kwire-index"
# As `s3a://bucket/name` and `hdfs:/name`; a single character is a Windows drive.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_PASSWORD = re.compile(r"(?<=://)(?P<user>[^/@:]*):[^/@]*(?=@)")


def expand_names(names: Iterable[str]) -> list[str]:
    """The files of these names: a directory means the captures in it, a pattern the files that it matches.

    Returns: the absolute path of each file, once, in the order named, directories and patterns sorted.
    Raises: FileNotFoundError when a name matches no file.
    """
    files: dict[str, None] = {}
    for name in names:
        matches = _matching_files(local_path(name))
        if not matches:
            # The working directory of Spark's driver is where it was started, even if the program changes its own.
            where = "" if Path(name).is_absolute() else f" in {Path.cwd()}"
            raise FileNotFoundError(f"no capture file matches {name!r}{where}")
        # Workers may have another working directory than the driver: each executor of a cluster has its own.
        files.update(dict.fromkeys(map(os.path.abspath, matches)))
    if not files:
        raise FileNotFoundError("no capture file was named: load() takes files, directories or patterns")
    return list(files)


def existing_files(names: Iterable[str]) -> list[str]:
    """The files that these names match now, each once; no match is no error."""
    return list(dict.fromkeys(os.path.abspath(file) for name in names for file in _matching_files(local_path(name))))


def load_names(options: Mapping[str, str]) -> list[str]:
    """The names given to `load()`: Spark passes one as option `path`, several as a JSON array in option `paths`."""
    names = [options["path"]] if options.get("path") else []
    if options.get("paths"):
        names += json.loads(options["paths"])
    return names


def local_path(name: str, what: str = "captures are") -> str:
    """The local path of a name. A `file:` name may be as Spark writes it, or percent-encoded.

    Raises: FileNotFoundError for a name of another scheme than `file:`; `what` begins the error's sentence.
    """
    if not _SCHEME.match(name) or os.path.exists(name):
        return name
    as_written = re.sub(r"^file:(//(localhost)?(?=/))?", "", name)
    if as_written != name and os.path.exists(as_written):
        return as_written
    parts = urlsplit(name)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    raise FileNotFoundError(
        f"{without_password(name)!r}: {what} read from paths that driver and workers can access as files; "
        "kwire.spark.read_remote(spark, names) reads what only Spark can access"
    )


def without_password(name: str) -> str:
    """The name with any password masked, for messages."""
    return _PASSWORD.sub(r"\g<user>:***", name)


def _matching_files(name: str) -> list[str]:
    path = Path(name)
    if path.is_dir():
        return sorted(str(entry) for entry in path.iterdir() if entry.name.endswith(SUFFIXES) and entry.is_file())
    if path.exists():
        return [name]
    matches = (match for match in glob.glob(name, recursive=True) if not match.endswith(SIDECAR_SUFFIX))
    return sorted(match for match in matches if Path(match).is_file())
