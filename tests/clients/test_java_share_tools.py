"""Kafka's share group tools, one after another on one group: they print what they print with a real broker.

The expected texts were taken from the same commands against Apache Kafka 4.3.0.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from mockbroker import Cluster
from tests.clients.fast_share_groups import FAST_SHARE_GROUPS
from tests.clients.java_tools import ToolShell

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
PERFORMANCE = "org.apache.kafka.tools.ShareConsumerPerformance"

RECORD_COUNT = 100
FIRST_MS = 1_700_000_000_000
STEP_MS = 1_000
#: 40 seconds after the first record.
DATE_OF_RECORD_40 = "2023-11-14T22:14:00.000"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, topics={"orders": 1}, properties=FAST_SHARE_GROUPS) as running:
        producer = Producer({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})
        for number in range(RECORD_COUNT):
            producer.produce("orders", b"v%d" % number, partition=0, timestamp=FIRST_MS + number * STEP_MS)
        assert producer.flush(30) == 0
        yield running


@pytest.fixture(scope="module")
def printed(cluster: Cluster, tools: ToolShell) -> dict[str, list[str]]:
    """The output lines of each command, by the name of the step."""
    server = ("--bootstrap-server", cluster.bootstrap_servers)
    group = ("--group", "g")
    describe = (SHARE_GROUPS, *server, "--describe", *group)
    reset = (SHARE_GROUPS, *server, "--reset-offsets", *group, "--topic", "orders")
    limits = ("--num-records", str(RECORD_COUNT), "--timeout", "20000", "--hide-header")
    earliest = "share.auto.offset.reset=earliest,share.record.lock.duration.ms=20000"
    steps = {
        "configure": (CONFIGS, *server, "--alter", *group, "--add-config", earliest),
        "configured": (CONFIGS, *server, "--describe", *group),
        "measure": (PERFORMANCE, *server, "--topic", "orders", *group, *limits),
        "listed": (SHARE_GROUPS, *server, "--list", "--state"),
        "state": (*describe, "--state", "--verbose"),
        "members": (*describe, "--members"),
        "plan": (*reset, "--to-earliest", "--dry-run"),
        "reset to earliest": (*reset, "--to-earliest", "--execute"),
        "at earliest": (*describe, "--verbose"),
        "reset to a time": (*reset, "--to-datetime", DATE_OF_RECORD_40, "--execute"),
        "at a time": describe,
        "reset to latest": (*reset, "--to-latest", "--execute"),
        "at latest": describe,
        "delete offsets": (SHARE_GROUPS, *server, "--delete-offsets", *group, "--topic", "orders"),
        "without offsets": describe,
        "delete": (SHARE_GROUPS, *server, "--delete", *group),
        "deleted": describe,
        "unset": (CONFIGS, *server, "--alter", *group, "--delete-config", "share.record.lock.duration.ms"),
        "remaining": (CONFIGS, *server, "--describe", *group),
    }
    return tools.run_steps(steps)


def test_the_configs_tool_sets_shows_and_deletes_group_configurations(printed: dict[str, list[str]]) -> None:
    head = "Dynamic configs for group g are:"
    reset = (
        "share.auto.offset.reset=earliest sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:share.auto.offset.reset="
        "earliest, DEFAULT_CONFIG:share.auto.offset.reset=latest}"
    )
    lock = (
        "share.record.lock.duration.ms=20000 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:share.record.lock.duration"
        ".ms=20000, DEFAULT_CONFIG:group.share.record.lock.duration.ms=30000}"
    )

    assert printed["configure"] == ["Completed updating config for group g."]
    assert printed["configured"] == [head, reset, lock]
    assert printed["remaining"] == [head, reset]


def test_the_performance_tool_counts_every_record(printed: dict[str, list[str]]) -> None:
    assert [line.split(", ")[5] for line in printed["measure"]] == [str(RECORD_COUNT)]


def test_a_group_without_members_is_listed_and_described_as_empty(printed: dict[str, list[str]]) -> None:
    head, row = printed["state"]

    assert printed["listed"] == ["GROUP STATE", "g Empty"]
    assert head == "GROUP COORDINATOR (ID) STATE GROUP-EPOCH ASSIGNMENT-EPOCH #MEMBERS"
    assert row.split()[-4:] == ["Empty", "4", "4", "0"]
    assert printed["members"] == []


def test_a_dry_run_prints_the_plan_of_a_reset(printed: dict[str, list[str]]) -> None:
    assert printed["plan"] == ["GROUP TOPIC PARTITION NEW-OFFSET", "g orders 0 0"]


@pytest.mark.parametrize(("where", "offset"), [("earliest", 0), ("a time", 40), ("latest", 100)])
def test_offsets_are_reset_to_earliest_to_a_time_and_to_latest(
    printed: dict[str, list[str]], where: str, offset: int
) -> None:
    epoch = "0 " if where == "earliest" else ""  # Only this one was described verbosely.

    assert printed[f"reset to {where}"] == ["GROUP TOPIC PARTITION NEW-OFFSET", f"g orders 0 {offset}"]
    assert printed[f"at {where}"][1] == f"g orders 0 {epoch}{offset} {RECORD_COUNT - offset}"


def test_deleting_offsets_keeps_the_group(printed: dict[str, list[str]]) -> None:
    assert printed["delete offsets"] == ["TOPIC STATUS", "orders Successful"]
    assert printed["without offsets"] == ["Share group 'g' has no offset information."]


def test_a_deleted_group_is_not_found(printed: dict[str, list[str]]) -> None:
    assert printed["delete"] == ["Deletion of requested share groups ('g') was successful."]
    assert printed["deleted"] == [
        "Error: Executing share group command failed due to "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: Group g not found."
    ]
