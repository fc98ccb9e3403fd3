"""Apache Kafka's own tests of requests and command-line tools, from the test jars on Maven."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.foreign.clusters import RELEASE, ClusterControl, StartCluster
from tests.foreign.java_process import JavaProcess, compile_sources
from tests.foreign.suites import Runner
from tools.oracle.jars import KAFKA_VERSIONS, fetch_pom

_HERE = Path(__file__).parent


class KafkaSuite:
    """Kafka's tests, each with a cluster of its own.

    start: starts such a cluster. None: Kafka's own, with real brokers in the virtual machine of the tests.
    """

    name = "kafka"

    def __init__(self, start: StartCluster | None) -> None:
        self._start = start

    def selectors(self, names: Sequence[str]) -> list[str]:
        """The methods of these tests, without the numbers of their invocations."""
        return list(dict.fromkeys(name.split("[", 1)[0] for name in names))

    @contextmanager
    def prepare(self) -> Iterator[Runner]:
        """Fetch the jars, and compile what stands in for Kafka's own clusters."""
        jars = fetch_pom(_HERE / "pom.xml", "tests", KAFKA_VERSIONS[RELEASE])
        with tempfile.TemporaryDirectory(prefix="foreign-") as folder:
            classes = Path(folder)
            compile_sources(sorted((_HERE / "java").glob("*.java")), jars, classes)
            process = JavaProcess(classes, jars, ClusterControl(self._start) if self._start else None)
            try:
                yield process
            finally:
                process.close()
