"""File listing through Spark, for locations that only Spark can access; file contents are values of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.functions import col

from kwire.spark.paths import SIDECAR_SUFFIX, SUFFIXES, without_password

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark's default limit is the longest array of the JVM: 2^31 - 1 elements.
_LENGTH_SETTING = "spark.sql.sources.binaryFile.maxLength"
_GLOB = re.compile(r"\\(.)|(\*)|(\?)|\[([!^]?)(\]?[^\]]*)\]|([{,}])", re.DOTALL)
_SCHEME_AND_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


class _File(NamedTuple):
    """`path` is as Hadoop writes it, `address` the same percent-encoded, as Spark compares it."""

    path: str
    length: int
    address: str


def list_captures(spark: SparkSession, names: Sequence[str]) -> DataFrame:
    """Path and content of each capture that these Hadoop names and patterns match, on any file system.

    A directory means the captures in it and in the folders below; a file that a name or pattern itself matches is read
    with any suffix. Spark lists the directories now, and reads the contents when rows are requested.
    Raises: ValueError for a name with a password in it, or a file that is too large for a value; FileNotFoundError.
    """
    for name in names:
        if without_password(name) != name:
            raise ValueError(f"{without_password(name)!r} has a password in it: give it to Spark as a setting instead")
    all_files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(names))
    listed = [_File(*row) for row in all_files.select("path", "length", "_metadata.file_path").collect()]
    is_capture = _capture_matcher(names)
    captures = [file for file in listed if is_capture(file.path)]
    if not captures:
        raise FileNotFoundError(f"no capture file matches {', '.join(names)}")
    _check_lengths(spark, captures)
    others = [file.address for file in listed if not is_capture(file.path)]
    # Spark skips files by their address before it opens them.
    chosen = all_files.where(~col("_metadata.file_path").isin(others)) if others else all_files
    return chosen.select("path", "content")


def _check_lengths(spark: SparkSession, files: Sequence[_File]) -> None:
    limit = int(spark.conf.get(_LENGTH_SETTING) or 2**31 - 1)
    large = [file for file in files if file.length > limit]
    if large:
        more = f" (and {len(large) - 1} more files)" if len(large) > 1 else ""
        raise ValueError(
            f"{large[0].path}{more} has {large[0].length} bytes. Spark passes on at most {limit} "
            f"({_LENGTH_SETTING}): cut it (editcap -c), or read it with format kafka_capture where it is mounted"
        )


def _capture_matcher(names: Sequence[str]) -> Callable[[str], bool]:
    """A function that decides whether a listed file is read: a capture by its suffix, or matched by a name itself."""
    named = re.compile("|".join(_pattern(_SCHEME_AND_HOST.sub("", name, count=1)) for name in names))

    def is_capture(path: str) -> bool:
        """As Hadoop writes the path."""
        return path.endswith(SUFFIXES) or (named.search(path) is not None and not path.endswith(SIDECAR_SUFFIX))

    return is_capture


def _pattern(name: str) -> str:
    """A pattern of Hadoop as a regular expression that matches the end of a path."""
    expression, at, depth = "", 0, 0
    for match in _GLOB.finditer(name):
        expression += re.escape(name[at : match.start()])
        at = match.end()
        escaped, star, mark, negation, characters, sign = match.groups()
        if escaped is not None:
            expression += re.escape(escaped)
        elif star or mark:
            expression += "[^/]*" if star else "[^/]"
        elif sign:
            depth += {"{": 1, "}": -1}.get(sign, 0)
            expression += {"{": "(?:", "}": ")"}.get(sign) or ("|" if depth else ",")
        else:
            inside = characters.replace("\\", r"\\").replace("[", r"\[")
            expression += f"[{'^' if negation else ''}{inside}]"
    return f"{expression}{re.escape(name[at:])}\\Z"
