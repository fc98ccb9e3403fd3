"""From what a user names (files, globs, directories) to the capture files meant, one by one and in order."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

SUFFIXES = tuple(f"{suffix}{packed}" for suffix in (".pcap", ".pcapng", ".cap") for packed in ("", ".gz", ".zst"))
# What a pattern never means: an index beside its capture.
SIDECAR = ".kwire-index"
# As `s3a://bucket/name` and `hdfs:/name`; a single letter is a drive of Windows.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_PASSWORD = re.compile(r"(?<=://)(?P<user>[^/@:]*):[^/@]*(?=@)")


def expand(names: Iterable[str]) -> list[str]:
    """The files that these names mean: a directory stands for the captures in it, a pattern for what it matches.

    Returns: the whole path of each file, once, in the order named, directories and patterns sorted.
    Raises: FileNotFoundError when a name means no file.
    """
    files: dict[str, None] = {}
    for name in names:
        found = _files(local(name))
        if not found:
            # Spark's driver stands where it was started, whatever the program does later.
            where = "" if Path(name).is_absolute() else f" in {Path.cwd()}"
            raise FileNotFoundError(f"no capture file matches {name!r}{where}")
        # Workers may stand in another directory than the driver: each executor of a cluster has its own.
        files.update(dict.fromkeys(map(os.path.abspath, found)))
    if not files:
        raise FileNotFoundError("no capture file was named: load() takes files, directories or patterns")
    return list(files)


def present(names: Iterable[str]) -> list[str]:
    """The files that these names mean at this moment, each once; none is no error."""
    return list(dict.fromkeys(os.path.abspath(file) for name in names for file in _files(local(name))))


def named_in(options: Mapping[str, str]) -> list[str]:
    """The names given to `load()`: Spark passes one as option `path`, several as a JSON array in option `paths`."""
    names = [options["path"]] if options.get("path") else []
    if options.get("paths"):
        names += json.loads(options["paths"])
    return names


def local(name: str, what: str = "captures are") -> str:
    """The path that a name means on this machine. A `file:` name may be as Spark writes it, or percent-encoded.

    Raises: FileNotFoundError for a name of another scheme than `file:`; `what` is what is read there.
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
        f"{without_password(name)!r}: {what} read from paths that driver and workers see as files; "
        "what only Spark can reach is read by kwire.spark.read_remote(spark, names)"
    )


def without_password(name: str) -> str:
    """The name as it may be shown: a password for the place is masked."""
    return _PASSWORD.sub(r"\g<user>:***", name)


def _files(name: str) -> list[str]:
    path = Path(name)
    if path.is_dir():
        return sorted(str(each) for each in path.iterdir() if each.name.endswith(SUFFIXES) and each.is_file())
    if path.exists():
        return [name]
    found = (each for each in glob.glob(name, recursive=True) if not each.endswith(SIDECAR))
    return sorted(each for each in found if Path(each).is_file())
