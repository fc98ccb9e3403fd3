"""Kafka's own share consumer (Java) in every situation that an application can bring it into.

What each line must say is what the same program writes against Apache Kafka 4.3.0.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mockbroker import Cluster
from tests import needs
from tests.clients import java_tools
from tests.clients.haste import HASTE

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

PROGRAM = Path(__file__).parent / "java" / "ShareScenarios.java"


@pytest.fixture(scope="module")
def seen() -> dict[str, str]:
    """What the program wrote of each situation."""
    needs.tool("javac")  # A runtime alone does not run a source file.
    with Cluster(properties=HASTE) as cluster:
        written = java_tools.run(str(PROGRAM), cluster.bootstrap_servers)
    return dict(line.split(": ", 1) for line in written.splitlines())


def test_what_was_delivered_is_acknowledged_by_the_next_poll(seen: dict[str, str]) -> None:
    assert seen["implicit"] == "20 and then nothing"


def test_released_records_come_again_accepted_and_rejected_ones_do_not(seen: dict[str, str]) -> None:
    assert seen["explicit"] == "good good again {1=2, 4=2}"


def test_a_renewed_lock_outlives_its_first_term_and_counts_no_delivery(seen: dict[str, str]) -> None:
    assert seen["renew"] == "2000 good good good good delivered 1"


def test_a_poll_in_record_limit_mode_brings_no_record_too_many(seen: dict[str, str]) -> None:
    assert seen["record-limit"] == "[3, 3, 3, 1]"


def test_a_read_committed_group_never_sees_an_aborted_record(seen: dict[str, str]) -> None:
    assert seen["read-committed"] == "[first0, first1, first2, last0, last1, last2] and then nothing"


def test_a_record_is_given_up_at_its_delivery_limit(seen: dict[str, str]) -> None:
    assert seen["delivery-limit"] == "[1, 2] and then nothing"


def test_a_poll_is_woken_and_the_consumer_goes_on(seen: dict[str, str]) -> None:
    assert seen["wakeup"] == "woken and then 1"


def test_what_a_closed_consumer_held_is_delivered_again_at_once(seen: dict[str, str]) -> None:
    assert seen["close-while-holding"] == "5 held, again [2, 2, 2, 2, 2] before the lock's end"


def test_a_consumer_that_stalled_past_its_lock_is_refused_and_another_has_the_records(seen: dict[str, str]) -> None:
    assert seen["stalled"] == "InvalidRecordStateException, again [2, 2, 2, 2, 2] good"
