"""The fixture `kafka`, in test files of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def _run(folder: Path, text: str) -> str:
    (folder / "test_it.py").write_text(text, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "test_it.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


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
