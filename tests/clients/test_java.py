"""Kafka's own console clients (Java, from Maven) against the broker; each checks the records that it received."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mockbroker import Cluster
from tests.clients.java_tools import CONSOLE_CONSUMER, ToolShell

pytestmark = [pytest.mark.client, pytest.mark.timeout(600)]

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
CONFIGS = "kafka.admin.ConfigCommand"
RECORDS = [f"record {number}" for number in range(20)]
LIMITS = ("--max-messages", str(len(RECORDS)), "--timeout-ms", "30000")


@pytest.fixture(scope="module")
def cluster(tools: ToolShell) -> Iterator[Cluster]:
    """A cluster with records that Kafka's own producer has written."""
    with Cluster(nodes=3, topics={"orders": 3}) as running:
        arguments = ["--bootstrap-server", running.bootstrap_servers, "--topic", "orders"]
        tools.run(PRODUCER, *arguments, stdin="\n".join(RECORDS) + "\n")
        yield running


@pytest.fixture(scope="module")
def consumed(tools: ToolShell, cluster: Cluster) -> str:
    """The records that a share consumer has printed."""
    server = ("--bootstrap-server", cluster.bootstrap_servers)
    tools.run(CONFIGS, *server, "--alter", "--group", "g", "--add-config", "share.auto.offset.reset=earliest")
    return tools.run(SHARE_CONSUMER, *server, "--topic", "orders", *LIMITS, "--group", "g")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_consumer_gets_what_the_console_producer_wrote(
    tools: ToolShell, cluster: Cluster, protocol: str
) -> None:
    topic = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", "orders", "--from-beginning")
    settings = ("--command-property", f"group.protocol={protocol}", "--group", f"java-{protocol}")

    output = tools.run(CONSOLE_CONSUMER, *topic, *LIMITS, *settings)

    assert sorted(output.splitlines()) == sorted(RECORDS)


def test_the_console_share_consumer_gets_every_record(consumed: str) -> None:
    assert sorted(consumed.splitlines()) == sorted(RECORDS)


def test_the_formatter_of_kafka_prints_the_share_coordinators_records(
    tools: ToolShell, cluster: Cluster, consumed: str
) -> None:
    assert consumed

    records = tools.read_topic(cluster, "__share_group_state", "group.share.ShareGroupStateMessageFormatter")

    assert {record["key"]["data"]["groupId"] for record in records} == {"g"}
    snapshots = [record["value"]["data"] for record in records if record["key"]["type"] == 0]
    updates = [record["value"]["data"] for record in records if record["key"]["type"] == 1]
    assert [(row["snapshotEpoch"], row["startOffset"]) for row in snapshots] == [(0, -1)] * 3
    acknowledged = {
        (record["key"]["data"]["partition"], offset)
        for record in records
        if record["key"]["type"] == 1
        for batch in record["value"]["data"]["stateBatches"]
        if batch["deliveryState"] == 2
        for offset in range(batch["firstOffset"], batch["lastOffset"] + 1)
    }
    assert len(acknowledged) == len(RECORDS)
    assert all(row["snapshotEpoch"] == 0 for row in updates)
