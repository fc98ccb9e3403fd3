"""The share consumer of kafka-clients 4.0.0 (Java) against the edition that speaks its early access.

What each line must say is what the same program writes against Apache Kafka 4.0.0.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mockbroker import Cluster
from tests import needs
from tests.clients import java_tools
from tests.clients.haste import HASTE
from tools.oracle.jars import clients_jar, jars

pytestmark = [pytest.mark.client, pytest.mark.timeout(120)]

PROGRAM = Path(__file__).parent / "java" / "EarlyShareScenarios.java"


@pytest.fixture(scope="module")
def seen() -> dict[str, str]:
    """What the program wrote of each situation."""
    needs.tool("javac")  # A runtime alone does not run a source file.
    maven = needs.tool("mvn")
    classes = [clients_jar("4.0.0", maven=maven), *jars(maven=maven).glob("slf4j-*.jar")]
    with Cluster(properties=HASTE, share_edition="4.0-early-access") as cluster:
        written = java_tools.run(str(PROGRAM), cluster.bootstrap_servers, instead=classes)
    return dict(line.split(": ", 1) for line in written.splitlines())


def test_what_was_delivered_is_acknowledged_by_the_next_poll(seen: dict[str, str]) -> None:
    assert seen["implicit"] == "20 and then nothing"


def test_released_records_come_again_accepted_and_rejected_ones_do_not(seen: dict[str, str]) -> None:
    assert seen["explicit"] == "good good again {1=2, 4=2}"


def test_a_record_is_given_up_at_its_delivery_limit(seen: dict[str, str]) -> None:
    assert seen["delivery-limit"] == "[1, 2, 3, 4, 5] and then nothing"


def test_two_members_share_the_records_of_the_partitions_that_both_are_assigned(seen: dict[str, str]) -> None:
    assert seen["two-members"] == "40 records in 40 deliveries"


def test_what_a_closed_consumer_held_is_delivered_again(seen: dict[str, str]) -> None:
    assert seen["close-while-holding"] == "again [1=2, 2=2, 3=2, 4=2]"
