"""Kafka's own console clients (Java, from Maven) against the broker, each checking the records that it was given."""

from __future__ import annotations

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
