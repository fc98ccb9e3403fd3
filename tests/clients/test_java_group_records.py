"""Kafka's own formatters print the records of `__consumer_offsets` that its own consumers have the broker write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mockbroker import Cluster
from tests.clients import java_tools

pytestmark = [pytest.mark.client, pytest.mark.timeout(600)]

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTERS = "org.apache.kafka.tools.consumer"
COUNT = 5


def formatted(bootstrap: str, formatter: str) -> list[dict[str, Any]]:
    """Read the whole topic as a formatter of Kafka's prints it."""
    written = java_tools.run(
        CONSUMER,
        *("--bootstrap-server", bootstrap, "--topic", "__consumer_offsets", "--from-beginning"),
        *("--formatter", f"{FORMATTERS}.{formatter}", "--timeout-ms", "8000"),
    )
    # A formatter puts nothing between two records.
    rows: list[dict[str, Any]] = json.loads(f"[{written.replace('}{', '},{')}]")
    return rows


@pytest.fixture(scope="module")
def bootstrap() -> Any:
    """A cluster where two groups, one of each protocol, have read a topic."""
    with Cluster(topics={"orders": 1}) as cluster:
        server = ["--bootstrap-server", cluster.bootstrap_servers]
        java_tools.run(PRODUCER, *server, "--topic", "orders", given="record\n" * COUNT)
        for protocol in ("classic", "consumer"):
            java_tools.run(
                CONSUMER,
                *server,
                *("--topic", "orders", "--from-beginning", "--max-messages", str(COUNT), "--timeout-ms", "30000"),
                *("--group", f"of-{protocol}", "--command-property", f"group.protocol={protocol}"),
            )
        yield cluster.bootstrap_servers


def test_the_offsets_formatter_prints_what_both_protocols_committed(bootstrap: str) -> None:
    rows = formatted(bootstrap, "OffsetsMessageFormatter")
    last = {row["key"]["data"]["group"]: row for row in rows}

    for group in ("of-classic", "of-consumer"):
        assert last[group]["key"] == {"type": 1, "data": {"group": group, "topic": "orders", "partition": 0}}
        assert last[group]["value"]["version"] == 4
        assert last[group]["value"]["data"]["offset"] == COUNT


def test_the_group_formatter_prints_a_classic_groups_generations(bootstrap: str) -> None:
    rows = formatted(bootstrap, "GroupMetadataMessageFormatter")
    values = [row["value"]["data"] for row in rows if row["key"]["data"] == {"group": "of-classic"}]

    assert [(value["generation"], value["protocol"], len(value["members"])) for value in values] == [
        (0, None, 0),
        (1, "range", 1),
        (2, None, 0),
    ]
    assert values[1]["leader"] == values[1]["members"][0]["memberId"]
    assert values[1]["members"][0]["clientHost"] == "/127.0.0.1"
