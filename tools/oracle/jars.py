"""The jars of an Apache Kafka release with its tools, from Maven, kept between runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

VERSION = "4.3.0"
_POM = Path(__file__).with_name("pom.xml")
_STREAMS_POM = Path(__file__).with_name("streams-pom.xml")
_CLIENTS_POM = Path(__file__).with_name("clients-pom.xml")
_PATIENCE_S = 600


def jars(version: str = VERSION, *, maven: str = "mvn") -> Path:
    """The folder of the jars, filled on first use: ~/.cache/kafka-VERSION/libs, as `start-kafka` has it.

    Raises: RuntimeError with Maven's words when it fails.
    """
    home = _home(version)
    ready = home / "ready"
    if not ready.exists():
        _fetch(_POM, home / "libs", version, maven)
        ready.touch()
    return home / "libs"


def streams_jar(version: str = VERSION, *, maven: str = "mvn") -> Path:
    """The jar of Kafka Streams, without the store on disk that it would bring along; for tools' jars on one path.

    Raises: RuntimeError with Maven's words when it fails.
    """
    jar = _home(version) / "streams" / f"kafka-streams-{version}.jar"
    if not jar.exists():
        _fetch(_STREAMS_POM, jar.parent, version, maven)
    return jar


def clients_jar(version: str, *, maven: str = "mvn") -> Path:
    """The jar of Kafka's own clients alone, of a release whose broker is not wanted.

    Raises: RuntimeError with Maven's words when it fails.
    """
    jar = _home(version) / "clients" / f"kafka-clients-{version}.jar"
    if not jar.exists():
        _fetch(_CLIENTS_POM, jar.parent, version, maven)
    return jar


def _home(version: str) -> Path:
    return Path.home() / ".cache" / f"kafka-{version}"


def _fetch(pom: Path, target: Path, version: str, maven: str) -> None:
    command = [maven, "-q", "-B", "-f", str(pom), f"-Dkafka.version={version}"]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"Maven could not bring the jars of Kafka {version}:\n{done.stdout}{done.stderr}")
