"""The versions of Apache Kafka that are run here, and their jars, fetched by Maven and cached."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

#: Kafka's version of each release, the newest first. The shell scripts of this folder read the same file.
KAFKA_VERSIONS = dict(line.split("\t") for line in Path(__file__).with_name("versions.tsv").read_text().splitlines())
NEWEST_VERSION = next(iter(KAFKA_VERSIONS.values()))
#: The newest version whose command-line tools are on Maven (pom.xml).
TOOLS_VERSION = KAFKA_VERSIONS["4.3"]
_TIMEOUT_S = 600
_HERE = Path(__file__).parent


def fetch_jars(version: str, *, maven: str = "mvn") -> Path:
    """The folder of the jars, filled on first use: ~/.cache/kafka-VERSION/libs, as in `start-kafka`.

    They are those of the broker and, up to TOOLS_VERSION, of the command-line tools.

    Raises: RuntimeError with Maven's output when it fails.
    """
    home = _cache_folder(version)
    ready = home / "ready"
    if not ready.exists():
        _run_maven(_HERE / "pom.xml", home / "libs", version, maven)
        ready.touch()
    return home / "libs"


def fetch_streams_jar(version: str, *, maven: str = "mvn") -> Path:
    """The jar of Kafka Streams, without the jar of its disk store; for a class path together with the tools' jars.

    Raises: RuntimeError with Maven's output when it fails.
    """
    return _fetch_jar("streams", version, maven)


def fetch_clients_jar(version: str, *, maven: str = "mvn") -> Path:
    """The jar of Kafka's clients of a release, without the broker.

    Raises: RuntimeError with Maven's output when it fails.
    """
    return _fetch_jar("clients", version, maven)


def fetch_pom(pom: Path, part: str, version: str, *, maven: str = "mvn") -> Path:
    """The folder of the jars of another pom: ~/.cache/kafka-VERSION/PART, filled on first use and when the pom changes.

    Raises: RuntimeError with Maven's output when it fails.
    """
    folder = _cache_folder(version) / part
    ready = folder / "pom.xml"
    if not ready.exists() or ready.read_bytes() != pom.read_bytes():
        shutil.rmtree(folder, ignore_errors=True)
        _run_maven(pom, folder, version, maven)
        shutil.copyfile(pom, ready)
    return folder


def _fetch_jar(part: str, version: str, maven: str) -> Path:
    jar = _cache_folder(version) / part / f"kafka-{part}-{version}.jar"
    if not jar.exists():
        _run_maven(_HERE / f"{part}-pom.xml", jar.parent, version, maven)
    return jar


def _cache_folder(version: str) -> Path:
    return Path.home() / ".cache" / f"kafka-{version}"


def _run_maven(pom: Path, target: Path, version: str, maven: str) -> None:
    command = [maven, "-q", "-B", "-f", str(pom), f"-Dkafka.version={version}"]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"Maven could not fetch the jars of Kafka {version}:\n{done.stdout}{done.stderr}")
