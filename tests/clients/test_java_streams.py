"""Kafka Streams with its own group protocol (KIP-1071), and Kafka's tool for streams groups.

What each line must say is what the same program writes against Apache Kafka 4.3.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mockbroker import Cluster
from tests import needs
from tests.clients import java_tools
from tools.oracle.jars import streams_jar

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

PROGRAM = Path(__file__).parent / "java" / "WordCount.java"
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
#: Heartbeats ten times a second, and no waiting for members that might come.
HASTE = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "100",
}
MADE = "0[lines][] 1[][word-count-words-repartition]"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(properties=HASTE) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def seen(cluster: Cluster) -> dict[str, str]:
    """What the program wrote of each step."""
    return counted(cluster, "at_least_once")


def counted(cluster: Cluster, guarantee: str) -> dict[str, str]:
    needs.tool("javac")  # A runtime alone does not run a source file.
    jar = streams_jar(maven=needs.tool("mvn"))
    written = java_tools.run(str(PROGRAM), cluster.bootstrap_servers, guarantee, beside=(jar,))
    return dict(line.split(": ", 1) for line in written.splitlines())


def test_one_instance_has_all_tasks(seen: dict[str, str]) -> None:
    assert seen["one"] == "{be=2, not=1, or=1, to=2} by 8"


def test_two_instances_share_them_and_count_on(seen: dict[str, str]) -> None:
    assert seen["two"] == "{be=3, it=1, not=1, or=1, so=1, to=2} by 4 and 4"
    assert seen["group"] == f"Stable 2 {MADE}"


def test_the_other_one_takes_over_with_the_state_of_who_left(seen: dict[str, str]) -> None:
    assert seen["left"] == "{be=4, is=1, it=2, not=1, or=1, so=2, to=3} by 8"


def test_with_transactions_each_word_is_counted_once_too(seen: dict[str, str]) -> None:
    with Cluster(properties=HASTE) as cluster:
        assert counted(cluster, "exactly_once_v2") == seen


def test_the_broker_has_made_the_internal_topics(seen: dict[str, str]) -> None:
    assert seen["empty"] == f"Empty 0 {MADE}"
    assert seen["made"] == "word-count-totals-changelog 4, word-count-words-repartition 4"


def test_the_streams_groups_tool_lists_describes_resets_and_deletes(cluster: Cluster, seen: dict[str, str]) -> None:
    assert "empty" in seen
    group = ("--bootstrap-server", cluster.bootstrap_servers, "--group", "word-count")
    with java_tools.shell() as shell:
        listed = shell.run(TOOL, *group[:2], "--list", "--state")
        state = shell.run(TOOL, *group, "--describe", "--state", "--verbose")
        reset = shell.run(TOOL, *group, "--reset-offsets", "--to-earliest", "--all-input-topics", "--execute")
        offsets = shell.run(TOOL, *group, "--delete-offsets", "--input-topic", "lines")
        deleted = shell.run(TOOL, *group, "--delete")
        left = shell.run(TOOL, *group[:2], "--list")

    assert listed.split() == ["GROUP", "STATE", "word-count", "Empty"]
    # Of the group: its name, its coordinator and that one's id, state, epochs of group and assignment, members.
    assert state.splitlines()[-1].split()[-4:-2] == ["Empty", "6"]
    assert [row.split() for row in reset.splitlines()[1:]] == [["word-count", "lines", str(n), "0"] for n in range(3)]
    assert offsets.count("Successful") == 4
    assert "('word-count') was successful" in deleted
    assert left == ""
