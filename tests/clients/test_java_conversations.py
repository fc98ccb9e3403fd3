"""The conversations with a client in Java, with Kafka's own classes for messages and records, in real time."""

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
from tests.conversations import script_library
from tests.conversations.script_library import NEWEST_RELEASE
from tests.support import needs
from tools.oracle.conversations.broker_properties import COLD, SINGLE_USE, features, properties
from tools.oracle.jars import KAFKA_VERSIONS, fetch_jars

pytestmark = [pytest.mark.client, pytest.mark.timeout(400)]

SOURCE = Path(script_library.__file__).with_name("Converse.java")
_TIMEOUT_S = 300
#: The conversations wait in real time: in parts, several test processes play them at the same time.
_PARTS = 2
#: Two depend on times that only an idle machine keeps; this client does not mask the texts of the third.
_NOT_PLAYED = (
    "other-classic-static-restart",
    "other-consumer-regex-deleted-topic",
    "other-describe-configs-documentation",
)
_RESULTS = ("PASS ", "FAIL ", "SKIP ")
_GENERATED = re.compile(r"-\d{4}$")
#: The keys that the Java client supports; only the Python client plays steps with other keys.
# fmt: off
_STEP_KEYS = frozenset((
    "conn", "api", "version", "body", "wireVersion", "answerVersion", "save", "until", "every", "transient",
    "setup", "async", "await", "elapsed", "mask", "drop", "counts", "keep", "collect", "ordered", "produce",
    "sleep_ms", "connect", "clientId", "close",
))
_BATCH_KEYS = frozenset((
    "records", "codec", "size", "key", "timestamp", "step", "producerId", "producerEpoch", "baseSequence",
    "transactional", "control", "corrupt", "baseOffset", "magic", "tombstone",
))
# fmt: on


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the compiled client."""
    out = tmp_path_factory.mktemp("converse")
    libraries = f"{fetch_jars(KAFKA_VERSIONS[NEWEST_RELEASE], maven=needs.tool('mvn'))}/*"
    subprocess.run(
        [needs.tool("javac"), "-nowarn", "-cp", libraries, "-d", str(out), str(SOURCE)],
        check=True,
        capture_output=True,
        timeout=_TIMEOUT_S,
    )
    return [needs.tool("java"), "-XX:TieredStopAtLevel=1", "-cp", f"{out}:{libraries}", "Converse", "check"]


@pytest.mark.parametrize("part", range(_PARTS))
def test_a_client_in_java_receives_what_a_real_broker_answered(runner: list[str], part: int) -> None:
    names = _names_of_part(part)
    schedules = script_library.make_schedules(names)
    shared = [schedule for schedule in schedules if schedule.broker not in SINGLE_USE]
    lines: dict[str, str] = {}
    with _clusters(schedule.broker for schedule in shared) as addresses:
        command = [*runner, addresses, "-j"]
        lines |= _run([*command, "1"], [name for schedule in shared for name in schedule.first])
        lines |= _run([*command, "8"], [name for schedule in shared for name in schedule.concurrent])
        lines |= _run([*command, "1"], [name for schedule in shared for name in schedule.last])
    for schedule in schedules:
        if schedule.broker in SINGLE_USE:
            with _clusters([schedule.broker]) as address:
                lines |= _run([*runner, address], [*schedule.concurrent, *schedule.last])
    for name in [name for name, line in lines.items() if not line.startswith("PASS ")]:
        # They run in real time: one that was late beside others is run again alone.
        with _clusters([script_library.broker_name(script_library.read_script(name, NEWEST_RELEASE))]) as address:
            lines |= _run([*runner, address], [name])

    assert [line for line in lines.values() if not line.startswith("PASS ")] == []
    assert sorted(lines) == names


def _names_of_part(part: int) -> list[str]:
    """The sorted names of one part; those that must be played in order are all in the first part."""
    names = [name for name in script_library.script_names(NEWEST_RELEASE) if _can_be_played(name)]
    ordered = {name for schedule in script_library.make_schedules(names) for name in schedule.first}
    others = [name for name in names if name not in ordered][part::_PARTS]
    return sorted([*others, *ordered]) if part == 0 else others


def _can_be_played(name: str) -> bool:
    script = script_library.read_script(name, NEWEST_RELEASE)
    recorded = script_library.RECORDED.read(name, NEWEST_RELEASE)
    listed = script_library.listed_apis(recorded)
    return (
        # Random histories repeat the requests of the written scripts, and take long in real time.
        not _GENERATED.search(name)
        and name not in _NOT_PLAYED
        and script_library.broker_name(script) not in COLD  # This client warms up every broker.
        and all(step.keys() <= _STEP_KEYS for step in script["steps"])
        and all(batch.keys() <= _BATCH_KEYS for step in script["steps"] for batch in _batches(step))
        and listed <= ROUTES.keys()
    )


def _batches(step: Any) -> Any:
    return step.get("produce", {}).get("batches", ())


@contextmanager
def _clusters(brokers: Iterable[str]) -> Iterator[str]:
    """Running brokers, as an argument of the client: BROKER=HOST:PORT,..."""
    with ExitStack() as stack:
        addresses = {
            broker: stack.enter_context(
                Cluster(properties=properties(broker), features=features(broker), release=NEWEST_RELEASE)
            )
            for broker in brokers
        }
        yield ",".join(f"{broker}={cluster.bootstrap_servers}" for broker, cluster in addresses.items())


def _run(command: list[str], names: list[str]) -> dict[str, str]:
    """Play scripts. Returns: the client's line of each script by its name, PASS NAME or FAIL NAME: DIFFERENCE."""
    if not names:
        return {}
    files = [str(script_library.SCRIPTS / f"{name}.json") for name in names]
    done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    lines = {line.split()[1].rstrip(":"): line for line in done.stdout.splitlines() if line.startswith(_RESULTS)}
    assert lines.keys() == set(names), f"{done.stdout}{done.stderr}"
    return lines
