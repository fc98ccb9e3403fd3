"""Apache Kafka's own producer and share consumer (Java) with faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from mockbroker import Cluster
from tests.clients.fast_share_groups import FAST_SHARE_GROUPS
from tests.clients.java_tools import run_program

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

PROGRAM = Path(__file__).parents[1] / "java" / "FaultScenarios.java"


def test_an_idempotent_producer_writes_once_and_a_share_consumer_reports_a_failed_acknowledgement() -> None:
    with Cluster(topics={"orders": 1}, properties=FAST_SHARE_GROUPS, profile="quick") as kafka:
        kafka.faults.add("Produce", topic="orders", times=2, error="NOT_LEADER_OR_FOLLOWER")
        kafka.faults.add("Produce", topic="orders", first=3, times=1, drop=True, after=True)
        acknowledge = kafka.faults.add(
            "ShareAcknowledge", topic="orders", partition=0, times=1, error="INVALID_RECORD_STATE"
        )
        written = run_program(PROGRAM, kafka.bootstrap_servers)
        kafka.check_faults()

    lines = dict(line.split(": ", 1) for line in written.splitlines())
    assert lines["produced"] == "[0, 1, 2]"
    assert lines["acknowledged"].startswith("[InvalidRecordStateException, ")
    assert acknowledge.hits == 1
