"""The conversations once more by a runner in Java, with Kafka's own classes for messages and records, in real time."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mockbroker import Cluster
from mockbroker.handlers import ROUTES
from tests import needs
from tests.conversations import library
from tests.conversations.brokers import COLD, ONCE, features, properties
from tools.oracle.jars import jars

pytestmark = [pytest.mark.client, pytest.mark.timeout(400)]

SOURCE = Path(library.__file__).with_name("Converse.java")
_PATIENCE_S = 300
_GENERATED = re.compile(r"-\d{4}$")
#: What the runner in Java knows of; steps with other words are played by our own runner alone.
# fmt: off
_WORDS = frozenset((
    "conn", "api", "version", "body", "wireVersion", "answerVersion", "save", "until", "every", "transient",
    "setup", "async", "await", "elapsed", "mask", "drop", "counts", "keep", "collect", "ordered", "produce",
    "sleep_ms", "connect", "clientId", "close",
))
_BATCH_WORDS = frozenset((
    "records", "codec", "size", "key", "timestamp", "step", "producerId", "producerEpoch", "baseSequence",
    "transactional", "control", "corrupt", "baseOffset", "magic", "tombstone",
))
# fmt: on


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command, compiled."""
    out = tmp_path_factory.mktemp("converse")
    libraries = f"{jars(maven=needs.tool('mvn'))}/*"
    subprocess.run(
        [needs.tool("javac"), "-nowarn", "-cp", libraries, "-d", str(out), str(SOURCE)],
        check=True,
        capture_output=True,
        timeout=_PATIENCE_S,
    )
    return [needs.tool("java"), "-XX:TieredStopAtLevel=1", "-cp", f"{out}:{libraries}", "Converse", "check"]


def test_the_runner_in_java_hears_what_a_real_broker_answered(runner: list[str]) -> None:
    names = [name for name in library.names() if _can_be_played(name)]
    sittings = library.sittings(names)
    several = [sitting for sitting in sittings if sitting.broker not in ONCE]
    printed: list[str] = []
    with _clusters(sitting.broker for sitting in several) as addresses:
        command = [*runner, addresses, "-j"]
        printed += _run([*command, "1"], [name for sitting in several for name in sitting.first])
        printed += _run([*command, "4"], [name for sitting in several for name in sitting.side_by_side])
        printed += _run([*command, "1"], [name for sitting in several for name in sitting.last])
    for sitting in sittings:
        if sitting.broker in ONCE:
            with _clusters([sitting.broker]) as address:
                printed += _run([*runner, address], [*sitting.side_by_side, *sitting.last])

    assert sorted(line.split()[1] for line in printed) == names


def _can_be_played(name: str) -> bool:
    script = library.read(name)
    listed = {row["apiKey"] for answer in library.recorded(name) for row in answer.get("apiKeys", ())}
    return (
        not _GENERATED.search(name)  # Random histories ask what the written scripts ask, and take long in real time.
        and library.broker_of(script) not in COLD  # This runner warms up every broker.
        and all(step.keys() <= _WORDS for step in script["steps"])
        and all(batch.keys() <= _BATCH_WORDS for step in script["steps"] for batch in _batches(step))
        and listed <= ROUTES.keys()
    )


def _batches(step: Any) -> Any:
    return step.get("produce", {}).get("batches", ())


@contextmanager
def _clusters(brokers: Iterable[str]) -> Iterator[str]:
    """Running brokers, as the runner wants to have them named: BROKER=HOST:PORT,..."""
    with ExitStack() as stack:
        addresses = {
            broker: stack.enter_context(Cluster(properties=properties(broker), features=features(broker)))
            for broker in brokers
        }
        yield ",".join(f"{broker}={cluster.bootstrap_servers}" for broker, cluster in addresses.items())


def _run(command: list[str], names: list[str]) -> list[str]:
    """One line for each script: what the runner says of it."""
    files = [str(library.SCRIPTS / f"{name}.json") for name in names]
    done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    *lines, last = done.stdout.splitlines() or [done.stderr]
    failed = [line for line in lines if not line.startswith("PASS ")]
    assert last == f"{len(names)} passed, 0 failed", "\n".join([*failed, last, done.stderr])
    return lines
