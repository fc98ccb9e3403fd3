"""Which files names mean in a place that only Spark can look into, and their contents as values of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.functions import col

from kwire.spark.paths import SIDECAR, SUFFIXES, without_password

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# An array of the JVM has one element less than this, and Spark's own limit is that of an array.
_LENGTH_SETTING = "spark.sql.sources.binaryFile.maxLength"
_GLOB = re.compile(r"\\(.)|(\*)|(\?)|\[([!^]?)(\]?[^\]]*)\]|([{,}])", re.DOTALL)
_PLACE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


class _File(NamedTuple):
    """`path` is as Hadoop writes it, `address` the same percent-encoded, as Spark compares it."""

    path: str
    length: int
    address: str


def captures(spark: SparkSession, names: Sequence[str]) -> DataFrame:
    """Path and content of each capture that these names of Hadoop mean, whatever the file system.

    A directory stands for the captures in it and in the folders below; what a name or a pattern itself says is taken
    whatever its suffix. Spark looks at the directories now, and reads the contents when rows are asked for.
    Raises: ValueError for a name with a password in it, or a file that is too large for a value; FileNotFoundError.
    """
    for name in names:
        if without_password(name) != name:
            raise ValueError(f"{without_password(name)!r} has a password in it: give it to Spark as a setting instead")
    whole = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(names))
    listed = [_File(*row) for row in whole.select("path", "length", "_metadata.file_path").collect()]
    is_meant = _meant(names)
    meant = [file for file in listed if is_meant(file.path)]
    if not meant:
        raise FileNotFoundError(f"no capture file matches {', '.join(names)}")
    _check_lengths(spark, meant)
    others = [file.address for file in listed if not is_meant(file.path)]
    # Spark leaves files out by their address before it opens them.
    chosen = whole.where(~col("_metadata.file_path").isin(others)) if others else whole
    return chosen.select("path", "content")


def _check_lengths(spark: SparkSession, files: Sequence[_File]) -> None:
    limit = int(spark.conf.get(_LENGTH_SETTING) or 2**31 - 1)
    large = [file for file in files if file.length > limit]
    if large:
        more = f" (and {len(large) - 1} more files)" if len(large) > 1 else ""
        raise ValueError(
            f"{large[0].path}{more} has {large[0].length} bytes. What goes through Spark may have {limit} "
            f"({_LENGTH_SETTING}): cut it (editcap -c), or read it with format kafka_capture where it is mounted"
        )


def _meant(names: Sequence[str]) -> Callable[[str], bool]:
    """Whether a file below what was named is meant: a capture by its suffix, or what a name says itself."""
    named = re.compile("|".join(_pattern(_PLACE.sub("", name, count=1)) for name in names))

    def is_meant(path: str) -> bool:
        """As Hadoop writes the path."""
        return path.endswith(SUFFIXES) or (named.search(path) is not None and not path.endswith(SIDECAR))

    return is_meant


def _pattern(name: str) -> str:
    """A pattern of Hadoop as a regular expression for the end of a path."""
    out, at, depth = "", 0, 0
    for found in _GLOB.finditer(name):
        out += re.escape(name[at : found.start()])
        at = found.end()
        escaped, star, mark, negation, letters, sign = found.groups()
        if escaped is not None:
            out += re.escape(escaped)
        elif star or mark:
            out += "[^/]*" if star else "[^/]"
        elif sign:
            depth += {"{": 1, "}": -1}.get(sign, 0)
            out += {"{": "(?:", "}": ")"}.get(sign) or ("|" if depth else ",")
        else:
            inside = letters.replace("\\", r"\\").replace("[", r"\[")
            out += f"[{'^' if negation else ''}{inside}]"
    return f"{out}{re.escape(name[at:])}\\Z"
