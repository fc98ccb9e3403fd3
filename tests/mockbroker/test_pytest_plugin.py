"""The fixtures of clusters, in test files of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.capture import read_rows


def _run(folder: Path, text: str, *options: str, plugins: tuple[str, ...] | None = ()) -> str:
    """Run pytest on a file of this text. Returns: what it prints.

    plugins: beside that of mockbroker, by module; None: all that are installed, as a user has them. They take a third
    of the time.
    """
    (folder / "test_it.py").write_text(text, "utf-8")
    chosen = None if plugins is None else ("mockbroker.pytest_plugin", *plugins)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "test_it.py"]
    command += options
    for name in chosen or ():
        command += ["-p", name]
    env = {**os.environ, **({} if chosen is None else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False).stdout


def test_the_options_of_module_class_and_function_are_merged(tmp_path: Path) -> None:
    printed = _run(
        tmp_path,
        """
import pytest

pytestmark = pytest.mark.kafka(nodes=2, topics={"a": 1, "b": 1})

@pytest.mark.kafka(topics={"b": 2})
class TestIt:
    @pytest.mark.kafka(topics={"c": 3}, nodes=3)
    def test_it(self, kafka):
        topics = kafka.run(lambda server: server.core.state.metadata.topics())
        assert len(kafka.bootstrap_servers.split(",")) == 3
        assert {topic.name: len(topic.partitions) for topic in topics} == {"a": 1, "b": 2, "c": 3}
""",
        plugins=None,
    )

    assert "1 passed" in printed, printed


def test_a_positional_argument_of_the_marker_is_an_error(tmp_path: Path) -> None:
    printed = _run(
        tmp_path,
        """
import pytest

@pytest.mark.kafka({"orders": 1})
def test_it(kafka):
    pass
""",
    )

    assert "1 error" in printed, printed
    assert "@pytest.mark.kafka takes named options, as topics={'orders': 1}, not {'orders': 1}" in printed


_MISSPELLED = """
import pytest

@pytest.mark.kafka(topic={"orders": 1})
def test_by_marker(kafka):
    raise AssertionError("started")

def test_by_call(kafka_cluster):
    kafka_cluster(node=3)

@pytest.fixture(scope="session")
def kafka_session_options():
    return {"settngs": []}

def test_by_fixture(kafka_session):
    raise AssertionError("started")

def test_unlike_all(kafka_cluster):
    kafka_cluster(xyzzy=3)
"""


def test_an_option_that_does_not_exist_has_a_suggestion(tmp_path: Path) -> None:
    printed = _run(tmp_path, _MISSPELLED)

    for name, nearest in (("topic", "topics"), ("node", "nodes"), ("settngs", "settings")):
        assert f"a cluster has no option {name!r}; did you mean {nearest!r}?" in printed
    assert "a cluster has no option 'xyzzy'; the options are nodes, port, " in printed
    assert "started" not in [line.split(": ")[-1] for line in printed.splitlines()]


def test_timers_are_short_unless_another_profile_is_given(tmp_path: Path) -> None:
    printed = _run(
        tmp_path,
        """
import pytest

def heartbeat_ms(kafka):
    return kafka.run(lambda server: server.options.config.integer("group.share.heartbeat.interval.ms"))

def test_quick(kafka):
    assert heartbeat_ms(kafka) == 100

@pytest.mark.kafka(profile="kafka")
def test_as_in_kafka(kafka):
    assert heartbeat_ms(kafka) == 5000
""",
    )

    assert "2 passed" in printed, printed


def test_a_fault_that_never_acted_fails_the_test_that_set_it(tmp_path: Path) -> None:
    printed = _run(
        tmp_path,
        """
import pytest
from kwire import Client
from kwire.messages.list_groups import ListGroupsRequest

def test_misses(kafka):
    kafka.faults.add("ListGroups", client_id="other", error="NOT_COORDINATOR", name="wrong client")
    with Client(kafka.bootstrap_servers) as client:
        client.send(ListGroupsRequest())

def test_hits(kafka):
    kafka.faults.add("ListGroups", error="NOT_COORDINATOR")
    with Client(kafka.bootstrap_servers) as client:
        assert client.send(ListGroupsRequest()).error_code == 16

def test_optional(kafka):
    kafka.faults.add("ListGroups", error="NOT_COORDINATOR", optional=True)

def test_fails_by_itself(kafka):
    kafka.faults.add("Produce", drop=True, name="unused")
    assert 1 == 2
""",
    )

    assert "2 failed, 2 passed" in printed, printed
    assert "the fault 'wrong client' never acted:" in printed
    assert "its client_id was 'kwire', not 'other'" in printed
    assert "'unused'" not in printed.split("short test summary")[0].replace('name="unused"', "")


def test_several_clusters_are_started_by_call_and_end_with_the_test(tmp_path: Path) -> None:
    printed = _run(
        tmp_path,
        """
seen = []

def test_two(kafka_cluster):
    one, three = kafka_cluster(topics=["a"]), kafka_cluster(nodes=3, topics=["b"])
    seen.extend([one, three])
    assert [one.topics(), three.topics()] == [{"a": 1}, {"b": 1}]
    assert len(three.bootstrap_servers.split(",")) == 3

def test_they_have_ended():
    assert ["not running" in repr(cluster) for cluster in seen] == [True, True]
""",
    )

    assert "2 passed" in printed, printed


SHARED = """
import kwire
import pytest
from kwire.messages.metadata import MetadataRequest

pytestmark = pytest.mark.kafka(topics=["orders"])
addresses = set()

@pytest.mark.parametrize("number", range(3))
def test_each_test_finds_a_new_cluster_at_one_address(FIXTURE, number):
    addresses.add(FIXTURE.bootstrap_servers)
    FIXTURE.assert_never("Metadata")
    with kwire.Client(FIXTURE.bootstrap_servers) as client:
        client.send(MetadataRequest(topics=[]))
    assert FIXTURE.topics() == {"orders": 1}
    assert FIXTURE.read("orders") == []
    FIXTURE.produce("orders", "espresso")
    FIXTURE.create_topic("bills")
    FIXTURE.clock.advance(3_600_000)
    assert len(addresses) == 1
"""


@pytest.mark.parametrize("fixture", ["kafka_session", "kafka_module"])
def test_a_shared_cluster_is_reset_after_each_test(tmp_path: Path, fixture: str) -> None:
    options = "@pytest.fixture(scope='session')\ndef kafka_session_options():\n    return {'topics': ['orders']}\n"
    (tmp_path / "conftest.py").write_text(f"import pytest\n\n{options}", "utf-8")

    assert "3 passed" in _run(tmp_path, SHARED.replace("FIXTURE", fixture)), fixture


def test_shared_clusters_work_in_parallel_processes(tmp_path: Path) -> None:
    printed = _run(tmp_path, SHARED.replace("FIXTURE", "kafka_module"), "-n", "2", plugins=("xdist.plugin",))

    assert "3 passed" in printed, printed


def test_a_marker_that_no_fixture_reads_is_an_error(tmp_path: Path) -> None:
    printed = _run(
        tmp_path,
        """
import pytest

@pytest.mark.kafka(nodes=3)
def test_it(kafka_session):
    pass
""",
    )

    assert "the marker kafka has no effect on a cluster that tests share" in printed
    assert "1 error" in printed, printed


FAILING = """
import kwire
import pytest
from kwire.messages.metadata import MetadataRequest

def ask(cluster):
    with kwire.Client(cluster.bootstrap_servers, client_id="shop") as client:
        client.send(MetadataRequest(topics=[]))

def test_that_passes(kafka):
    ask(kafka)

def test_that_fails(kafka):
    ask(kafka)
    assert False

def test_that_fails_with_a_shared_cluster(kafka_session):
    ask(kafka_session)
    assert False

def test_without_a_cluster():
    assert False
"""


def test_a_failing_test_prints_its_seed_and_the_last_exchanges(tmp_path: Path) -> None:
    printed = _run(tmp_path, FAILING, "--kafka-seed", "7")

    assert "3 failed, 1 passed" in printed, printed
    assert printed.count("- mockbroker -") == 2
    assert printed.count("seed 7 (repeat with --kafka-seed 7)\nthe last 2 of 2 exchanges:\n  #1 ApiVersions v4") == 2
    assert "#2 Metadata v13, 'shop', node 0, NONE after" in printed


def test_the_traffic_of_failing_tests_is_written_to_a_folder(tmp_path: Path) -> None:
    _run(tmp_path, FAILING, "--kafka-artifacts", "out")

    files = sorted(re.sub(r"-[0-9a-f]{8}", "", path.name) for path in (tmp_path / "out").iterdir())
    assert files == [
        "test_it.py-test_that_fails.pcapng",
        "test_it.py-test_that_fails.txt",
        "test_it.py-test_that_fails_with_a_shared_cluster-shared-1.pcapng",
        "test_it.py-test_that_fails_with_a_shared_cluster.txt",
    ]
    for capture in (tmp_path / "out").glob("*.pcapng"):
        rows = read_rows(capture)
        assert [(row["api_name"], row["status"]) for row in rows] == [("ApiVersions", "ok"), ("Metadata", "ok")]
    (text,) = (tmp_path / "out").glob("*test_that_fails-*.txt")
    assert "Metadata v13, 'shop'" in text.read_text("utf-8")


def test_modules_of_the_broker_are_imported_without_rewritten_assertions(tmp_path: Path) -> None:
    """An installed wheel lists its modules, and pytest rewrites those of distributions with a plugin."""
    wheel = tmp_path / "listed-1.0.dist-info"
    wheel.mkdir()
    (wheel / "METADATA").write_text("Metadata-Version: 2.1\nName: listed\nVersion: 1.0\n", "utf-8")
    (wheel / "RECORD").write_text("kwire/__init__.py,,\nmockbroker/__init__.py,,\n", "utf-8")
    (wheel / "entry_points.txt").write_text("[pytest11]\nlisted = json\n", "utf-8")
    printed = _run(
        tmp_path,
        """
import sys
import kwire.codec
import mockbroker.handlers.records.fetch

def test_it():
    loaders = {name: repr(vars(module).get("__loader__")) for name, module in sys.modules.items()}
    rewritten = {name for name, loader in loaders.items() if "AssertionRewritingHook" in loader}
    assert "test_it" in rewritten
    own = {name for name in rewritten if name.startswith(("kwire", "mockbroker"))}
    assert own <= {"mockbroker", "mockbroker.pytest_plugin"}
""",
        plugins=None,
    )

    assert "1 passed" in printed, printed
