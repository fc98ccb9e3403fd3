"""The API versions that each release of Kafka lists, read from its clients' jar.

`python -m tools.oracle.api_versions` fetches the jars by Maven, asks the classes of each (`ApiVersionsOfRelease.java`),
and writes mockbroker/config/api_versions.tsv: a row for each API, a column for each release. Up to 3.2 the versions are
those of a broker with ZooKeeper, and from 3.3 on, the first release with KRaft for production (KIP-833), with KRaft.
Running brokers 2.8.2 (ZooKeeper) and 3.9.1 (KRaft) list the same, but for the APIs of telemetry without a receiver.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.oracle.jars import fetch_clients_jar

TABLE = Path(__file__).parents[2] / "mockbroker" / "config" / "api_versions.tsv"
_PROGRAM = Path(__file__).with_name("ApiVersionsOfRelease.java")
_FIRST_WITH_KRAFT = (3, 3)
_TIMEOUT_S = 60
#: A version of Kafka for each release; those of one release list the same.
_KAFKA_VERSIONS = (
    *("2.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2"),
    *("3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1", "4.0.0", "4.1.0", "4.2.0", "4.3.0", "4.4.0"),
)


def read_versions(kafka_version: str, *, java: str = "java", maven: str = "mvn") -> dict[tuple[int, str], str]:
    """The range of versions, as "0-9", of each API of a version of Kafka, by key and name.

    Raises: RuntimeError with the output of Maven or Java when it fails.
    """
    jar = fetch_clients_jar(kafka_version, maven=maven)
    major, minor = kafka_version.split(".")[:2]
    kind = "BROKER" if (int(major), int(minor)) >= _FIRST_WITH_KRAFT else "ZK_BROKER"
    command = [java, "-cp", f"{jar.parent}/*", str(_PROGRAM), kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"Kafka {kafka_version}:\n{done.stderr}")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {(int(key), name): f"{low}-{high}" for key, name, low, high in rows}


def build_table(versions: dict[str, dict[tuple[int, str], str]]) -> str:
    """The table as text. versions: by release, oldest first. An API has the name of the newest release that has it."""
    names = {key: name for apis in versions.values() for key, name in apis}
    lines = ["\t".join(["key", "name", *versions])]
    for key in sorted(names):
        by_key = [{number: span for (number, _), span in apis.items()} for apis in versions.values()]
        lines.append("\t".join([str(key), names[key], *(apis.get(key, "") for apis in by_key)]))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table."""
    releases = {version.rpartition(".")[0]: read_versions(version) for version in _KAFKA_VERSIONS}
    TABLE.write_text(build_table(releases), encoding="utf-8")


if __name__ == "__main__":
    main()
