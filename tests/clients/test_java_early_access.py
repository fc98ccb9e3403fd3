"""The share consumer of kafka-clients 4.0.0 (Java) against the edition of its early access.

The expected lines are those of the same program with Apache Kafka 4.0.0.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mockbroker import Cluster
from tests.clients.fast_share_groups import FAST_SHARE_GROUPS
from tests.clients.java_tools import run_program
from tests.support import needs
from tools.oracle.jars import KAFKA_VERSIONS, TOOLS_VERSION, fetch_clients_jar, fetch_jars

pytestmark = [pytest.mark.client, pytest.mark.timeout(120)]

PROGRAM = Path(__file__).parent / "java" / "EarlyShareScenarios.java"


@pytest.fixture(scope="module")
def seen() -> dict[str, str]:
    """The output of the program, by situation."""
    maven = needs.tool("mvn")
    classes = [
        fetch_clients_jar(KAFKA_VERSIONS["4.0-early-access"], maven=maven),
        *fetch_jars(TOOLS_VERSION, maven=maven).glob("slf4j-*.jar"),
    ]
    with Cluster(properties=FAST_SHARE_GROUPS, share_edition="4.0-early-access") as cluster:
        written = run_program(PROGRAM, cluster.bootstrap_servers, class_path=classes)
    return dict(line.split(": ", 1) for line in written.splitlines())


@pytest.mark.parametrize(("situation", "line"), [
    # Delivered records are acknowledged by the next poll; only released ones are delivered again.
    ("implicit", "20 and then nothing"),
    ("explicit", "good good again {1=2, 4=2}"),
    # A record is archived at its delivery limit.
    ("delivery-limit", "[1, 2, 3, 4, 5] and then nothing"),
    # Two members share the records of the partitions that both are assigned.
    ("two-members", "40 records in 40 deliveries"),
    # Records of a closed consumer are delivered again.
    ("close-while-holding", "again [1=2, 2=2, 3=2, 4=2]"),
])  # fmt: skip
def test_the_share_consumer_does_the_same_as_with_kafka(seen: dict[str, str], situation: str, line: str) -> None:
    assert seen[situation] == line
