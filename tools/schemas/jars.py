"""The official jars: which ones, where they are kept, and the schemas inside them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

#: Kafka keeps its schemas in this folder of each jar.
_FOLDER = "common/message/"


class Source(NamedTuple):
    """The release that an edition of our schemas states, and the jars with its messages."""

    kafka_version: str
    artifacts: tuple[str, ...]


SOURCES = {
    "4.3": Source(
        "4.3.0",
        ("kafka-clients", "kafka-group-coordinator", "kafka-share-coordinator", "kafka-transaction-coordinator"),
    ),
    # The share RPCs of 4.0 are all in the clients' jar; of its records there are those of share state and share groups.
    "4.0-early-access": Source("4.0.0", ("kafka-clients", "kafka-group-coordinator", "kafka-share-coordinator")),
}


class JarError(Exception):
    """A jar that is missing, cannot be fetched or cannot be read."""


def schemas_in(source: Source, folder: Path) -> dict[str, str]:
    """The text of every schema in the jars of a release, by file name.

    Raises: JarError when a jar is missing or is no jar.
    """
    found: dict[str, str] = {}
    for artifact in source.artifacts:
        path = folder / f"{artifact}-{source.kafka_version}.jar"
        try:
            with zipfile.ZipFile(path) as jar:
                for name in jar.namelist():
                    if name.startswith(_FOLDER) and name.endswith(".json"):
                        found[name.removeprefix(_FOLDER)] = jar.read(name).decode("utf-8")
        except (OSError, zipfile.BadZipFile) as error:
            raise JarError(f"{path}: {error}") from error
    return found


def cache_folder() -> Path:
    """Where fetched jars are kept: outside the checkout, so that they are fetched once for all clones."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "kwire" / "jars"


def fetch(source: Source, folder: Path) -> None:
    """Bring the jars that the folder does not have yet, through Maven.

    Raises: JarError when Maven is missing or does not find them.
    """
    missing = [name for name in source.artifacts if not (folder / f"{name}-{source.kafka_version}.jar").is_file()]
    if not missing:
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise JarError("the jars are fetched with Maven, and there is no mvn; name a folder that has them with --jars")
    folder.mkdir(parents=True, exist_ok=True)
    # A folder of its own, and a rename at the end: a run that is broken off leaves no half of a jar behind.
    with tempfile.TemporaryDirectory(dir=folder) as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(_pom(missing, source.kafka_version), encoding="utf-8")
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={work}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise JarError(f"Maven could not fetch {', '.join(missing)}:\n{(done.stdout + done.stderr).strip()}")
        for name in missing:
            jar = f"{name}-{source.kafka_version}.jar"
            os.replace(Path(work) / jar, folder / jar)


def _pom(artifacts: Iterable[str], version: str) -> str:
    """A Maven project that depends on these jars and, by the exclusions, on nothing that they need themselves."""
    dependencies = "".join(
        f"<dependency><groupId>org.apache.kafka</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        for name in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>kwire</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
