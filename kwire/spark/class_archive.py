"""An archive of the classes that a short Spark session loads, which the next session's JVM maps into its memory.

Java's class data sharing (JEP 350): without it a report loads and verifies some 25,000 classes from Spark's jars, which
takes longer than its queries. The archive is written by the JVM when it exits, and belongs to one Java and one Spark.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from kwire.spark.java import Java, cache_directory

#: Names the file of the archive; "none" for no archive.
ENVIRONMENT_VARIABLE = "KWIRE_CLASS_ARCHIVE"
# The JVM logs each class that it cannot archive (some are signed or generated), to stdout.
_NO_LOG = "-Xlog:cds*=off"
# How many archives stay in the user's cache directory, about 170 MB each: an update of Java or Spark needs another.
_ARCHIVES_MAX = 2
# A process that has not ended its archive after this time was killed, seconds.
_DRAFT_MAX_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one Java and one Spark. is_written: whether a session should write it if it does not exist."""

    path: Path
    is_written: bool

    def reading_options(self) -> str:
        """JVM options that use the archive; empty if it does not exist. The JVM ignores an archive of other jars."""
        return f'"-XX:SharedArchiveFile={self.path}" {_NO_LOG}' if self.path.is_file() else ""

    def writing_options(self) -> str:
        """JVM options that write the archive when the JVM exits; empty if it exists or should not be written."""
        if not self.is_written or self.path.exists():
            return ""
        return f'"-XX:ArchiveClassesAtExit={self._draft}" {_NO_LOG}'

    def complete(self) -> bool:
        """Make the archive that the JVM of this process has written available. Returns: whether there was one.

        It gets its name only now, so that no other process maps an incomplete file.
        """
        if not self._draft.is_file():
            return False
        os.replace(self._draft, self.path)
        if self.path.parent == cache_directory(os.environ):
            trim_archives(self.path.parent)
        return True

    @property
    def _draft(self) -> Path:
        return self.path.with_name(f"{self.path.name}.{os.getpid()}")


def trim_archives(folder: Path) -> None:
    """Delete all archives but the newest ones, and what killed processes left a day ago or before."""
    archives: list[tuple[float, Path]] = []
    drafts: list[tuple[float, Path]] = []
    for file in folder.glob("classes-*.jsa*"):
        with suppress(FileNotFoundError):
            status = file.stat()
            (archives if file.suffix == ".jsa" else drafts).append((status.st_mtime, file))
    old = [file for _, file in sorted(archives)[:-_ARCHIVES_MAX]]
    old += [file for written, file in drafts if written < time.time() - _DRAFT_MAX_S]
    for file in old:
        file.unlink(missing_ok=True)


def find_archive(java: Java, environ: Mapping[str, str] = os.environ) -> ClassArchive | None:
    """The archive for a Java and the installed Spark, which need not exist yet; None if there should be none.

    It is not written where the variable CI is set, unless `KWIRE_CLASS_ARCHIVE` names a file: a machine that is new for
    each run would spend the time to write it for nothing.
    """
    configured = environ.get(ENVIRONMENT_VARIABLE)
    if configured == "none":
        return None
    path = Path(configured) if configured else cache_directory(environ) / f"{_archive_key(java)}.jsa"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return None
    is_writable = os.access(path.parent, os.W_OK)
    return ClassArchive(path, is_written=is_writable and (bool(configured) or not environ.get("CI")))


def _archive_key(java: Java) -> str:
    """A text that differs where the JVM would refuse the archive: for another Java, and other or newer jars."""
    release = java.home / "release"
    build = release.read_bytes() if release.is_file() else b""
    spark_jars = Path(pyspark.__file__).parent / "jars"
    # The JVM compares the times of the jars, which change when the same Spark is installed again.
    installed_ns = spark_jars.stat().st_mtime_ns
    texts = (java.home, java.version, pyspark.__version__, spark_jars, installed_ns)
    parts = [build, *(os.fsencode(str(text)) for text in texts)]
    return f"classes-{hashlib.sha256(b'|'.join(parts)).hexdigest()[:16]}"
