"""The tests of franz-go's client, package kgo, from the Go module proxy."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mockbroker import Cluster
from tests.foreign.results import Result, Status
from tests.foreign.suites import Runner

_MODULE = Path(__file__).parent / "go"
_PACKAGE = "github.com/twmb/franz-go/pkg/kgo"
_BUILD_TIMEOUT_S = 600
_TEST_TIMEOUT_S = 180
_NODES = 3
#: So few that a time limit is kept, so many that the slow tests run beside each other.
_BATCH = 20
_OUTPUT_MAX = 4000
_USER, _PASSWORD = "kgo", "kgo-secret"
_PROPERTIES = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "group.initial.rebalance.delay.ms": "0",
}
#: `--- PASS: TestName (0.01s)`; those of subtests are indented.
_RESULT = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+) \(([\d.]+)s\)$", re.MULTILINE)
_STATUS = {"PASS": Status.PASSED, "FAIL": Status.FAILED, "SKIP": Status.SKIPPED}


class KgoSuite:
    """franz-go's tests, with one cluster of three nodes for all."""

    name = "kgo"

    def selectors(self, names: Sequence[str]) -> list[str]:
        """Batches of tests, as alternatives of a regular expression; those of a batch run in parallel as they allow."""
        return ["|".join(names[at : at + _BATCH]) for at in range(0, len(names), _BATCH)]

    @contextmanager
    def prepare(self) -> Iterator[Runner]:
        """Fetch and build the tests, and start the cluster."""
        with tempfile.TemporaryDirectory(prefix="foreign-") as folder:
            binary = Path(folder) / "kgo.test"
            _run_go("test", "-vet=off", "-c", "-o", str(binary), _PACKAGE)
            sources = Path(_run_go("list", "-f", "{{.Dir}}", _PACKAGE).strip())
            user = f"SCRAM-SHA-256=[name={_USER},password={_PASSWORD}]"
            with Cluster(nodes=_NODES, properties=_PROPERTIES, add_scram=[user]) as cluster:
                yield _KgoTests(binary, sources, cluster)


def _run_go(*arguments: str) -> str:
    command = ["go", *arguments]
    done = subprocess.run(command, cwd=_MODULE, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


class _KgoTests:
    def __init__(self, binary: Path, sources: Path, cluster: Cluster) -> None:
        self._binary = binary
        # One test reads the sources of the package.
        self._sources = sources
        self._environment = {
            **os.environ,
            "KGO_SEEDS": cluster.bootstrap_servers,
            "KGO_TEST_SCRAM_SEEDS": cluster.run(lambda server: server.bootstrap("SASL_PLAINTEXT")),
            "KGO_TEST_SCRAM": f"{_USER}:{_PASSWORD}",
            "KGO_TEST_RECORDS": "50000",
            "KGO_LOG_LEVEL": "none",
        }

    def run(self, selector: str) -> Iterator[Result]:
        """Run the tests whose names match. Yields: their results, when all have ended."""
        command = [str(self._binary), "-test.v", "-test.run", f"^({selector})$", f"-test.timeout={_TEST_TIMEOUT_S}s"]
        done = subprocess.run(
            command,
            cwd=self._sources,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TEST_TIMEOUT_S * 2,
            check=False,
        )
        end_of_output = done.stdout[-_OUTPUT_MAX:]
        missing = dict.fromkeys(selector.split("|"))
        for status, name, duration_s in _RESULT.findall(done.stdout):
            missing.pop(name, None)
            yield Result(name, _STATUS[status], float(duration_s), "" if status == "PASS" else end_of_output)
        # The process has ended before them, at a time limit or a panic.
        for name in missing:
            yield Result(name, Status.FAILED, 0.0, end_of_output)

    def close(self) -> None:
        """Each run ends its process."""
