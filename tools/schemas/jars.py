"""Kafka's official jars: their names, their cache, and the schemas in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kwire.schema import REMOVED_EDITION
from tools.oracle.jars import KAFKA_VERSIONS

#: The folders of the schemas in the jars.
_FOLDERS = ("common/message/", "common/metadata/")

#: A file of Kafka's whose name is not that of its message.
_RENAMED = {"ZkMigrationRecord.json": "ZkMigrationStateRecord.json"}


class Source(NamedTuple):
    """The release of an edition, and the jars with its messages."""

    kafka_version: str
    artifacts: tuple[str, ...]


_COORDINATORS = ("kafka-group-coordinator", "kafka-share-coordinator", "kafka-transaction-coordinator")
_ARTIFACTS = ("kafka-clients", *_COORDINATORS, "kafka-metadata")

SOURCES = {
    "4.4": Source(KAFKA_VERSIONS["4.4"], _ARTIFACTS),
    "4.3": Source(KAFKA_VERSIONS["4.3"], _ARTIFACTS),
    REMOVED_EDITION: Source(KAFKA_VERSIONS[REMOVED_EDITION], ("kafka-clients",)),
    # The share RPCs of 4.0 are in the clients' jar, the records of share state and share groups in the others.
    "4.0-early-access": Source(
        KAFKA_VERSIONS["4.0-early-access"], ("kafka-clients", "kafka-group-coordinator", "kafka-share-coordinator")
    ),
}


class JarError(Exception):
    """A jar that is missing, cannot be fetched or cannot be read."""


def read_schemas(source: Source, folder: Path) -> dict[str, str]:
    """The text of every schema in the jars of a release, by file name.

    Raises: JarError when a jar is missing or invalid.
    """
    texts: dict[str, str] = {}
    for artifact in source.artifacts:
        path = folder / f"{artifact}-{source.kafka_version}.jar"
        try:
            with zipfile.ZipFile(path) as jar:
                for name in jar.namelist():
                    if name.startswith(_FOLDERS) and name.endswith(".json"):
                        file = name.rpartition("/")[2]
                        texts[_RENAMED.get(file, file)] = jar.read(name).decode("utf-8")
        except (OSError, zipfile.BadZipFile) as error:
            raise JarError(f"{path}: {error}") from error
    return texts


def cache_folder() -> Path:
    """The folder of fetched jars: outside the checkout, so that all clones share it."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "kwire" / "jars"


def fetch_jars(source: Source, folder: Path) -> None:
    """Fetch the jars that are missing in the folder, by Maven.

    Raises: JarError when Maven is missing or does not find them.
    """
    missing = [name for name in source.artifacts if not (folder / f"{name}-{source.kafka_version}.jar").is_file()]
    if not missing:
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise JarError("the jars are fetched with Maven, but mvn is not installed; --jars names a folder that has them")
    folder.mkdir(parents=True, exist_ok=True)
    # A temporary folder and a rename at the end: an interrupted run leaves no incomplete jar.
    with tempfile.TemporaryDirectory(dir=folder) as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(_render_pom(missing, source.kafka_version), encoding="utf-8")
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={work}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise JarError(f"Maven could not fetch {', '.join(missing)}:\n{(done.stdout + done.stderr).strip()}")
        for name in missing:
            jar = f"{name}-{source.kafka_version}.jar"
            os.replace(Path(work) / jar, folder / jar)


def _render_pom(artifacts: Iterable[str], version: str) -> str:
    """A Maven project that depends on these jars and, by the exclusions, not on their dependencies."""
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
