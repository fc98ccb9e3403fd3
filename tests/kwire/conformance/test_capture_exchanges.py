"""Captures of real brokers and clients: every note agrees with what the broker answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from kwire.capture.options import Options
from kwire.conformance.capture_exchanges import CaptureObserver, find_capture_notes
from kwire.conformance.checker import Observation, find_notes
from kwire.conformance.model import ConnectionEnd, ConnectionGap, ObservedExchange
from kwire.error_codes import ErrorCode
from tests.support.captures.capture_files import CAPTURES


def observe(name: str) -> list[Observation]:
    return list(CaptureObserver().observe(str(CAPTURES / name), Options()))


def acknowledge_errors(exchange: ObservedExchange) -> Iterator[int]:
    response = cast("Any", exchange.response)
    yield response.error_code
    for topic in response.responses:
        for row in topic.partitions:
            yield getattr(row, "acknowledge_error_code", row.error_code)


@pytest.mark.parametrize(
    "name",
    ["small_aio.pcap", "small_ck.pcap", "small_jshare.pcap", "small_kpy.pcap", "small_share.pcap", "small_txn.pcap"],
)
def test_there_is_no_note_about_real_clients(name: str) -> None:
    assert find_capture_notes(str(CAPTURES / name)) == []


def test_kafka_refuses_what_a_note_calls_wrong() -> None:
    """kafka_scripts.pcap has scripts against Apache Kafka, many of them wrong on purpose."""
    observed = observe("kafka_scripts.pcap")
    exchanges = {each.number: each for each in observed if isinstance(each, ObservedExchange)}
    notes = [note for note in find_notes(observed) if note.rule.startswith(("share-ack", "share-session-wrong"))]

    assert len(notes) > 40
    assert [note for note in notes if not any(acknowledge_errors(exchanges[note.exchanges[-1]]))] == []


def test_acknowledgements_that_kafka_refused_have_a_note() -> None:
    observed = observe("kafka_play.pcap")
    noted = {note.exchanges[-1] for note in find_notes(observed) if note.rule.startswith("share-ack")}
    refused = {
        each.number
        for each in observed
        if isinstance(each, ObservedExchange)
        and each.api_name == "ShareAcknowledge"
        and ErrorCode.INVALID_RECORD_STATE in acknowledge_errors(each)
    }

    assert refused
    assert refused <= noted


def test_ends_say_whether_the_client_closed_the_connection_cleanly() -> None:
    """In small_ck.pcap librdkafka resets two of its connections."""
    ends = [each for each in observe("small_ck.pcap") if isinstance(each, ConnectionEnd)]

    assert sorted(each.is_clean for each in ends) == [False, False, True, True, True, True, True]


def test_a_capture_that_begins_in_the_middle_has_gaps_and_no_notes_about_what_is_missing() -> None:
    observed = observe("kafka_play.pcap")
    tail = [each for each in observed if not (isinstance(each, ObservedExchange) and each.number < 20)]

    assert not any(isinstance(each, ConnectionGap) for each in observed)
    assert {note.rule for note in find_notes(tail)} <= {note.rule for note in find_notes(observed)}
