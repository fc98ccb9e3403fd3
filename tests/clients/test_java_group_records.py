"""Kafka's formatters print the records of `__consumer_offsets` that the broker writes for Kafka's consumers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mockbroker import Cluster
from tests.clients.java_tools import CONSOLE_CONSUMER, ToolShell

pytestmark = [pytest.mark.client, pytest.mark.timeout(600)]

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
TOPIC = "__consumer_offsets"
COUNT = 5


@pytest.fixture(scope="module")
def cluster(tools: ToolShell) -> Iterator[Cluster]:
    """A cluster where two groups, one of each protocol, have read a topic."""
    with Cluster(topics={"orders": 1}) as running:
        topic = ("--bootstrap-server", running.bootstrap_servers, "--topic", "orders")
        tools.run(PRODUCER, *topic, stdin="record\n" * COUNT)
        for protocol in ("classic", "consumer"):
            tools.run(
                CONSOLE_CONSUMER,
                *(*topic, "--from-beginning", "--max-messages", str(COUNT), "--timeout-ms", "30000"),
                *("--group", f"of-{protocol}", "--command-property", f"group.protocol={protocol}"),
            )
        yield running


def test_the_offsets_formatter_prints_what_both_protocols_committed(tools: ToolShell, cluster: Cluster) -> None:
    rows = tools.read_topic(cluster, TOPIC, "OffsetsMessageFormatter")

    last = {row["key"]["data"]["group"]: row for row in rows}
    for group in ("of-classic", "of-consumer"):
        assert last[group]["key"] == {"type": 1, "data": {"group": group, "topic": "orders", "partition": 0}}
        assert last[group]["value"]["version"] == 4
        assert last[group]["value"]["data"]["offset"] == COUNT


def test_the_group_formatter_prints_a_classic_groups_generations(tools: ToolShell, cluster: Cluster) -> None:
    rows = tools.read_topic(cluster, TOPIC, "GroupMetadataMessageFormatter")

    values = [row["value"]["data"] for row in rows if row["key"]["data"] == {"group": "of-classic"}]
    assert [(value["generation"], value["protocol"], len(value["members"])) for value in values] == [
        (0, None, 0),
        (1, "range", 1),
        (2, None, 0),
    ]
    assert values[1]["leader"] == values[1]["members"][0]["memberId"]
    assert values[1]["members"][0]["clientHost"] == "/127.0.0.1"
