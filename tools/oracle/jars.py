"""The jars of an Apache Kafka release with its tools, from Maven, kept between runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

VERSION = "4.3.0"
_POM = Path(__file__).with_name("pom.xml")
_PATIENCE_S = 600


def jars(version: str = VERSION, *, maven: str = "mvn") -> Path:
    """The folder of the jars, filled on first use: ~/.cache/kafka-VERSION/libs, as `start-kafka` has it.

    Raises: RuntimeError with Maven's words when it fails.
    """
    home = Path.home() / ".cache" / f"kafka-{version}"
    ready = home / "ready"
    if not ready.exists():
        command = [maven, "-q", "-B", "-f", str(_POM), f"-Dkafka.version={version}"]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={home / 'libs'}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"Maven could not bring the jars of Kafka {version}:\n{done.stdout}{done.stderr}")
        ready.touch()
    return home / "libs"
