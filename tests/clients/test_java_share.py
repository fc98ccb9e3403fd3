"""Kafka's own share consumer (Java) in every situation that an application can cause, and with dead-letter queues.

The expected lines are those of the same programs with Apache Kafka, 4.3.0 and (with dead-letter queues) 4.4.0.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mockbroker import Cluster
from tests.clients.fast_share_groups import FAST_SHARE_GROUPS
from tests.clients.java_tools import clients_of_release, run_program

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

PROGRAM = Path(__file__).parent / "java" / "ShareScenarios.java"
DEAD_LETTERS = Path(__file__).parent / "java" / "DeadLetterScenarios.java"


@pytest.fixture(scope="module")
def seen() -> dict[str, str]:
    """The output of the program, by situation."""
    with Cluster(properties=FAST_SHARE_GROUPS) as cluster:
        written = run_program(PROGRAM, cluster.bootstrap_servers)
    return dict(line.split(": ", 1) for line in written.splitlines())


@pytest.mark.parametrize(("situation", "line"), [
    # Delivered records are acknowledged by the next poll; only released ones are delivered again.
    ("implicit", "20 and then nothing"),
    ("explicit", "good good again {1=2, 4=2}"),
    # A renewed lock outlives its first term and counts no delivery.
    ("renew", "2000 good good good good delivered 1"),
    # A poll in record_limit mode respects the limit.
    ("record-limit", "[3, 3, 3, 1]"),
    # A read_committed group never sees an aborted record.
    ("read-committed", "[first0, first1, first2, last0, last1, last2] and then nothing"),
    # A record is archived at its delivery limit.
    ("delivery-limit", "[1, 2] and then nothing"),
    ("wakeup", "woken and then 1"),
    # Records of a closed consumer are delivered again at once.
    ("close-while-holding", "5 held, again [2, 2, 2, 2, 2] before the lock's end"),
    # A consumer that stalled past its lock is refused, and another one has the records.
    ("stalled", "InvalidRecordStateException, again good"),
])  # fmt: skip
def test_the_share_consumer_does_the_same_as_with_kafka(seen: dict[str, str], situation: str, line: str) -> None:
    assert seen[situation] == line


@pytest.fixture(scope="module")
def queued() -> dict[str, str]:
    """The contents of the dead-letter queues, by situation."""
    with Cluster(properties=FAST_SHARE_GROUPS, release="4.4") as cluster:
        written = run_program(DEAD_LETTERS, cluster.bootstrap_servers, class_path=clients_of_release("4.4"))
    return dict(line.split(": ", 1) for line in written.splitlines())


def _dead_letter(record: str, topic: str, offset: int, count: int, message: str) -> str:
    place = f"topic={topic} partition=0 offset={offset} group={topic}"
    return f"{record} {place} delivery.count={count} message={message}"


_REJECTED, _EXHAUSTED = "Offset-rejected-by-client.", "Offset-delivery-count-exceeded-the-threshold."


@pytest.mark.parametrize(("situation", "records"), [
    ("rejected", [_dead_letter("null=null", "rejected", offset, 1, _REJECTED) for offset in (1, 3)]),
    ("exhausted", [_dead_letter("null=null", "exhausted", 0, 2, _EXHAUSTED)]),
    ("expired", [_dead_letter("null=null", "expired", 0, 2, _EXHAUSTED)]),
    ("copied", [_dead_letter(f"k{offset}=v{offset}", "copied", offset, 1, _REJECTED) for offset in range(3)]),
    ("without-queue", ["nothing"]),
])  # fmt: skip
def test_a_consumer_reads_the_same_from_the_queue_as_with_kafka(
    queued: dict[str, str], situation: str, records: list[str]
) -> None:
    assert queued[situation].split("; ") == records
