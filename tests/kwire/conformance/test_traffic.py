"""Rules that need all of a connection are silent about what they would need a missing part for."""

from __future__ import annotations

import pytest

from kwire.capture.options import Options
from kwire.conformance.capture_exchanges import find_capture_notes
from kwire.error_codes import ErrorCode
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.fetch import FetchResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from tests.kwire.conformance import test_share_rules as share
from tests.kwire.conformance.test_connection_rules import offer
from tests.kwire.conformance.test_group_rules import beat, beaten, joined
from tests.kwire.conformance.test_log_rules import fetch, metadata
from tests.kwire.conformance.test_retry_rules import produce, produced
from tests.support.captures.capture_files import CapturedConnection, CapturedPacket, build_pcap
from tests.support.captures.conversations import metadata_exchange
from tests.support.captures.index_captures import keep_direction
from tests.support.observed_traffic import ObservedTraffic


def reused_correlation_id() -> ObservedTraffic:
    traffic = ObservedTraffic()
    traffic.send(0, MetadataRequest(), MetadataResponse(), correlation_id=1)
    traffic.send(1000, MetadataRequest(), MetadataResponse(), took_ms=3000, correlation_id=7)
    traffic.send(3000, MetadataRequest(), correlation_id=7)
    return traffic


def unoffered_version() -> ObservedTraffic:
    traffic = ObservedTraffic()
    traffic.send(0, ApiVersionsRequest(), offer(5, 9), connection="c0")
    traffic.send(3000, MetadataRequest(), MetadataResponse(), version=10)
    return traffic


def stale_generation() -> ObservedTraffic:
    traffic = ObservedTraffic()
    traffic.send(1000, JoinGroupRequest(group_id="g", member_id="m"), joined(5))
    traffic.send(3000, HeartbeatRequest(group_id="g", member_id="m", generation_id=4), HeartbeatResponse())
    return traffic


def early_heartbeats() -> ObservedTraffic:
    traffic = ObservedTraffic()
    for at_ms in (1500, 1700, 2100, 2300):
        traffic.send(at_ms, beat(2), beaten(2))
    return traffic


def member_that_ends() -> ObservedTraffic:
    traffic = ObservedTraffic()
    traffic.send(1000, beat(2), beaten(2))
    traffic.close(4000)
    return traffic


def repeated_failure() -> ObservedTraffic:
    heartbeat, traffic = HeartbeatRequest(group_id="g", member_id="m", generation_id=1), ObservedTraffic()
    traffic.send(1000, heartbeat, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    traffic.send(3000, heartbeat, HeartbeatResponse())
    return traffic


def stale_leader_epoch() -> ObservedTraffic:
    traffic = ObservedTraffic()
    traffic.send(1000, MetadataRequest(), metadata(5))
    traffic.send(3000, fetch(4), FetchResponse())
    return traffic


def sequence_gap() -> ObservedTraffic:
    traffic = ObservedTraffic()
    traffic.send(1000, produce(b"a"), produced())
    traffic.send(3000, produce(b"c", sequence=5), produced(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
    return traffic


def wrong_session_epoch() -> ObservedTraffic:
    traffic = share.opened()
    traffic.send(3000, share.fetch(3), share.fetched())
    return traffic


def open_session() -> ObservedTraffic:
    traffic = share.opened()
    traffic.close(4000)
    return traffic


def acknowledgement_of_nothing() -> ObservedTraffic:
    traffic = share.opened()
    traffic.send(3000, share.acknowledge(1, (0, 0, share.ACCEPT)), share.acknowledged())
    return traffic


def late_acknowledgement() -> ObservedTraffic:
    traffic = share.opened((0, 4))
    traffic.send(3000, share.acknowledge(1, (0, 4, share.ACCEPT)), share.acknowledged())
    return traffic


BREACHES = {
    "correlation-id-in-flight": reused_correlation_id,
    "api-version-not-offered": unoffered_version,
    "stale-generation": stale_generation,
    "heartbeat-too-soon": early_heartbeats,
    "group-left-without-leave": member_that_ends,
    "retry-after-fatal-error": repeated_failure,
    "stale-leader-epoch": stale_leader_epoch,
    "produce-sequence-gap": sequence_gap,
    "share-session-wrong-epoch": wrong_session_epoch,
    "share-session-left-open": open_session,
    "share-ack-not-held": acknowledgement_of_nothing,
    "share-ack-lock-expired": late_acknowledgement,
}


@pytest.mark.parametrize("rule", BREACHES)
@pytest.mark.parametrize(("at_ms", "until_ms"), [(2000, None), (500, 2500), (2000, 3500), (500, 1e9)])
def test_a_rule_is_silent_about_a_stretch_with_a_gap(rule: str, at_ms: float, until_ms: float | None) -> None:
    traffic = BREACHES[rule]()
    assert {broken for broken, _ in traffic.broken()} == {rule}

    traffic.lose(at_ms, until_ms=until_ms)
    assert traffic.broken() == []


@pytest.mark.parametrize("rule", ["correlation-id-in-flight", "stale-generation", "stale-leader-epoch"])
def test_a_rule_speaks_again_about_what_follows_a_gap(rule: str) -> None:
    traffic = BREACHES[rule]()
    traffic.lose(100, until_ms=900)

    assert {broken for broken, _ in traffic.broken()} == {rule}


def test_a_gap_of_another_connection_does_not_hide_a_breach_of_this_one() -> None:
    traffic = reused_correlation_id()
    traffic.lose(2000, "c2", until_ms=5000)

    assert [broken for broken, _ in traffic.broken()] == ["correlation-id-in-flight"]


def connection_that_reuses_an_id() -> list[CapturedPacket]:
    """Four exchanges, the second and third with one id; the responses are packets 5, 7, 9 and 11."""
    connection = CapturedConnection().open()
    for correlation_id in (1, 2, 2, 3):
        connection.exchange(*metadata_exchange(correlation_id))
    return connection.packets


@pytest.mark.parametrize("count", [8, 11])
def test_a_response_in_a_packet_that_is_missing_makes_no_breach_of_the_correlation_id(count: int) -> None:
    """The capture ends with the second request of the id, or goes on after it."""
    packets = connection_that_reuses_an_id()[:count]

    assert find_capture_notes(build_pcap(packets)) == []
    assert find_capture_notes(build_pcap([*packets[:6], *packets[7:]])) == []


@pytest.mark.parametrize("begin", [0, 3])
def test_a_capture_of_the_requests_alone_makes_no_breach_of_the_correlation_id(begin: int) -> None:
    packets = keep_direction(connection_that_reuses_an_id()[begin:], from_client=True)

    assert find_capture_notes(build_pcap(packets), Options(ports=frozenset({9092}))) == []


def test_a_correlation_id_of_a_captured_request_without_response_must_not_be_used_again() -> None:
    connection = CapturedConnection().open().exchange(*metadata_exchange(1))
    asked, answer = metadata_exchange(2)
    connection.send_requests(asked).send_requests(asked).send_responses(answer)

    assert [note.rule for note in find_capture_notes(build_pcap(connection.packets))] == ["correlation-id-in-flight"]
