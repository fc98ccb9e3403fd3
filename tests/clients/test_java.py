"""Kafka's own console clients (Java, from Maven) against the broker, each checking the records that it was given."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from mockbroker import Cluster
from tests.clients import java_tools

pytestmark = [pytest.mark.client, pytest.mark.timeout(600)]

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
CONFIGS = "kafka.admin.ConfigCommand"
RECORDS = [f"record {number}" for number in range(20)]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A cluster with records that Kafka's own producer has written."""
    with Cluster(nodes=3, topics={"orders": 3}) as cluster:
        arguments = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", "orders"]
        java_tools.run(PRODUCER, *arguments, given="\n".join(RECORDS) + "\n")
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_consumer_gets_what_the_console_producer_wrote(bootstrap: str, protocol: str) -> None:
    limits = ["--from-beginning", "--max-messages", str(len(RECORDS)), "--timeout-ms", "30000"]
    settings = ["--command-property", f"group.protocol={protocol}", "--group", f"java-{protocol}"]

    written = java_tools.run(CONSUMER, "--bootstrap-server", bootstrap, "--topic", "orders", *limits, *settings)

    assert sorted(written.splitlines()) == sorted(RECORDS)


def test_the_console_share_consumer_gets_every_record(bootstrap: str) -> None:
    earliest = ["--alter", "--group", "java-share", "--add-config", "share.auto.offset.reset=earliest"]
    java_tools.run(CONFIGS, "--bootstrap-server", bootstrap, *earliest)
    limits = ["--max-messages", str(len(RECORDS)), "--timeout-ms", "30000", "--group", "java-share"]

    written = java_tools.run(SHARE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", "orders", *limits)

    assert sorted(written.splitlines()) == sorted(RECORDS)


def test_the_formatter_of_kafka_prints_the_share_coordinators_records(bootstrap: str) -> None:
    earliest = ["--alter", "--group", "formatted", "--add-config", "share.auto.offset.reset=earliest"]
    java_tools.run(CONFIGS, "--bootstrap-server", bootstrap, *earliest)
    limits = ["--max-messages", str(len(RECORDS)), "--timeout-ms", "30000", "--group", "formatted"]
    java_tools.run(SHARE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", "orders", *limits)

    written = java_tools.run(
        CONSUMER,
        *("--bootstrap-server", bootstrap, "--topic", "__share_group_state", "--from-beginning"),
        *("--formatter", "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"),
        *("--timeout-ms", "5000", "--command-property", "auto.offset.reset=earliest"),
    )

    records = json.loads(f"[{written.replace('}{', '},{')}]")  # The formatter puts nothing between two records.
    mine = [record for record in records if record["key"]["data"]["groupId"] == "formatted"]
    snapshots = [record["value"]["data"] for record in mine if record["key"]["type"] == 0]
    updates = [record["value"]["data"] for record in mine if record["key"]["type"] == 1]
    assert [(row["snapshotEpoch"], row["startOffset"]) for row in snapshots] == [(0, -1)] * 3
    settled = {
        (record["key"]["data"]["partition"], offset)
        for record in mine
        if record["key"]["type"] == 1
        for batch in record["value"]["data"]["stateBatches"]
        if batch["deliveryState"] == 2
        for offset in range(batch["firstOffset"], batch["lastOffset"] + 1)
    }
    assert len(settled) == len(RECORDS)
    assert all(row["snapshotEpoch"] == 0 for row in updates)
