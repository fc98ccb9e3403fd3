"""Kafka Streams with its own group protocol (KIP-1071), and Kafka's tool for streams groups.

The expected lines are those of the same program with Apache Kafka 4.3.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mockbroker import Cluster
from tests.clients.java_tools import ToolShell, run_program
from tests.support import needs
from tools.oracle.jars import TOOLS_VERSION, fetch_streams_jar

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

PROGRAM = Path(__file__).parent / "java" / "WordCount.java"
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
#: Heartbeats ten times a second, and no delay of the first rebalance.
FAST_GROUPS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "100",
}
INTERNAL_TOPICS = "0[lines][] 1[][word-count-words-repartition]"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(properties=FAST_GROUPS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def seen(cluster: Cluster) -> dict[str, str]:
    """The output of the program, by step."""
    return run_word_count(cluster, "at_least_once")


def run_word_count(cluster: Cluster, guarantee: str) -> dict[str, str]:
    jar = fetch_streams_jar(TOOLS_VERSION, maven=needs.tool("mvn"))
    written = run_program(PROGRAM, cluster.bootstrap_servers, guarantee, more_jars=(jar,))
    return dict(line.split(": ", 1) for line in written.splitlines())


def test_one_instance_has_all_tasks(seen: dict[str, str]) -> None:
    assert seen["one"] == "{be=2, not=1, or=1, to=2} by 8"


def test_two_instances_share_the_tasks_and_continue_counting(seen: dict[str, str]) -> None:
    assert seen["two"] == "{be=3, it=1, not=1, or=1, so=1, to=2} by 4 and 4"
    assert seen["group"] == f"Stable 2 {INTERNAL_TOPICS}"


def test_the_remaining_instance_takes_over_all_tasks_with_their_state(seen: dict[str, str]) -> None:
    assert seen["left"] == "{be=4, is=1, it=2, not=1, or=1, so=2, to=3} by 8"


def test_with_transactions_each_word_is_counted_once_too(seen: dict[str, str]) -> None:
    with Cluster(properties=FAST_GROUPS) as cluster:
        assert run_word_count(cluster, "exactly_once_v2") == seen


def test_a_broker_of_4_4_assigns_the_same_tasks(seen: dict[str, str]) -> None:
    with Cluster(properties=FAST_GROUPS, release="4.4") as cluster:
        assert run_word_count(cluster, "at_least_once") == seen


def test_the_broker_has_created_the_internal_topics(seen: dict[str, str]) -> None:
    assert seen["empty"] == f"Empty 0 {INTERNAL_TOPICS}"
    assert seen["made"] == "word-count-totals-changelog 4, word-count-words-repartition 4"


def test_the_streams_groups_tool_lists_describes_resets_and_deletes(
    cluster: Cluster, seen: dict[str, str], tools: ToolShell
) -> None:
    assert "empty" in seen
    group = ("--bootstrap-server", cluster.bootstrap_servers, "--group", "word-count")
    listed = tools.run(TOOL, *group[:2], "--list", "--state")
    state = tools.run(TOOL, *group, "--describe", "--state", "--verbose")
    reset = tools.run(TOOL, *group, "--reset-offsets", "--to-earliest", "--all-input-topics", "--execute")
    offsets = tools.run(TOOL, *group, "--delete-offsets", "--input-topic", "lines")
    deleted = tools.run(TOOL, *group, "--delete")
    left = tools.run(TOOL, *group[:2], "--list")

    assert listed.split() == ["GROUP", "STATE", "word-count", "Empty"]
    # The columns: group, coordinator and its id, state, group epoch, assignment epoch, members.
    assert state.splitlines()[-1].split()[-4:-2] == ["Empty", "6"]
    assert [row.split() for row in reset.splitlines()[1:]] == [["word-count", "lines", str(n), "0"] for n in range(3)]
    assert offsets.count("Successful") == 4
    assert "('word-count') was successful" in deleted
    assert left == ""
