"""Which requests a fault matches, how often it acts, and what it reports when it does not."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from mockbroker.faults import Fault, FaultError, Then, When
from tests.support.brokers.faulty_broker import FaultyBroker
from tests.support.brokers.producer import produce, record_batch

_ERROR = "COORDINATOR_NOT_AVAILABLE"


def _list(broker: FaultyBroker, **options: Any) -> int:
    code: int = broker.call(ListGroupsRequest(), 5, **options).error_code
    return code


def _codes(broker: FaultyBroker, count: int) -> str:
    return "".join("x" if _list(broker) else "." for _ in range(count))


def test_without_faults_the_core_calls_nothing() -> None:
    broker = FaultyBroker()

    states = [broker.core.faults is None]
    handle = broker.add("ListGroups", error=_ERROR)
    states.append(broker.core.faults is None)
    handle.remove()
    states.append(broker.core.faults is None)

    assert states == [True, False, True]


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({}, "xxxxxxxx"),
        ({"times": 2}, "xx......"),
        ({"first": 3, "times": 2}, "..xx...."),
        ({"every": 3}, "x..x..x."),
        ({"first": 2, "every": 2, "times": 2}, ".x.x...."),
    ],
)
def test_a_fault_acts_on_the_matches_that_it_counts(options: dict[str, Any], pattern: str) -> None:
    broker = FaultyBroker()
    handle = broker.add("ListGroups", error=_ERROR, **options)

    assert _codes(broker, 8) == pattern
    assert handle.hits == pattern.count("x")


def test_the_same_seed_and_requests_give_the_same_hits() -> None:
    patterns = []
    for extra in (False, False, True):
        broker = FaultyBroker()
        broker.add("ListGroups", error=_ERROR, probability=0.5)
        if extra:  # Another fault draws its own numbers.
            broker.add("Metadata", delay_ms=1, probability=0.5)
            broker.call(MetadataRequest(topics=None), 12)
        patterns.append(_codes(broker, 60))

    assert patterns[0] == patterns[1] == patterns[2]
    assert 15 < patterns[0].count("x") < 45


def test_faults_do_not_change_the_random_numbers_of_the_cluster() -> None:
    def draw(*, with_fault: bool) -> float:
        broker = FaultyBroker()
        if with_fault:
            broker.add("ListGroups", error=_ERROR, probability=0.5)
            _codes(broker, 10)
        return broker.core.state.rng.random()

    assert draw(with_fault=True) == draw(with_fault=False)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"node": 1}, "its node was 0, not 1"),
        ({"listener": "SSL"}, "its listener was 'PLAINTEXT', not 'SSL'"),
        ({"connection": 99}, r"its connection was \d+, not 99"),
        ({"client_id": "other"}, "its client_id was 'client-a', not 'other'"),
        ({"principal": "User:bob"}, "its principal was 'User:ANONYMOUS', not 'User:bob'"),
        ({"software_name": "librdkafka"}, "its software_name was 'kwire', not 'librdkafka'"),
        ({"from_ms": 10}, "it came 0 ms after the fault was added, before from_ms=10"),
        ({"filter": "types_filter=share"}, "filter 'types_filter=share' is false for it"),
        ({"first": 2}, "it was match 1; first=2, every=1"),
    ],
)
def test_a_request_that_does_not_match_is_reported_with_the_condition_that_it_misses(
    options: dict[str, Any], reason: str
) -> None:
    broker = FaultyBroker(nodes=2)
    broker.call(ApiVersionsRequest(client_software_name="kwire", client_software_version="1.0"), 3)
    handle = broker.add("ListGroups", error=_ERROR, **options)

    assert _list(broker) == 0

    assert handle.hits == 0
    with pytest.raises(AssertionError, match=f"1 requests of ListGroups came(.|\n)*to node 0: {reason}"):
        broker.faults.check_hits()


@pytest.mark.parametrize(
    "options",
    [
        {"node": 0, "listener": "PLAINTEXT", "client_id": "client-a", "principal": "User:ANONYMOUS"},
        {"software_name": "kwire", "software_version": "1.0"},
        {"filter": "types_filter=classic and states_filter ~ ^Sta"},
        {"until_ms": 1},
    ],
)
def test_a_request_matches_if_all_conditions_hold(options: dict[str, Any]) -> None:
    broker = FaultyBroker()
    broker.call(ApiVersionsRequest(client_software_name="kwire", client_software_version="1.0"), 3)
    broker.add("ListGroups", error=_ERROR, **options)

    request = ListGroupsRequest(states_filter=("Stable",), types_filter=("classic",))
    assert broker.call(request, 5).error_code == 15


def test_a_time_span_is_of_the_clock_of_the_cluster() -> None:
    broker = FaultyBroker()
    broker.add("ListGroups", error=_ERROR, from_ms=100, until_ms=200)
    codes = []
    for _ in range(5):
        codes.append(_list(broker))
        broker.advance(50)

    assert codes == [0, 0, 15, 15, 0]


def test_groups_and_members_are_compared_with_those_of_the_request() -> None:
    broker = FaultyBroker()
    broker.add("Heartbeat", group="g", member="m", error="REBALANCE_IN_PROGRESS")
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")

    assert broker.call(request, 4).error_code == 27
    assert broker.call(HeartbeatRequest(group_id="g", generation_id=1, member_id="n"), 4).error_code == 25


def test_topics_are_found_by_name_and_by_id() -> None:
    broker = FaultyBroker()
    handle = broker.add("Produce", topic="A", delay_ms=0, throttle_ms=0)
    broker.call(produce(broker.topic("A"), record_batch()), 13)
    broker.call(produce(broker.topic("B"), record_batch()), 13)

    assert handle.hits == 1
    assert handle.near_misses == ("Produce v13 of client 'client-a' to node 0: its topic was 'B', not 'A'",)


def test_a_fault_without_an_api_acts_on_every_request() -> None:
    broker = FaultyBroker()
    handle = broker.add(None, client_id="client-a", delay_ms=5)
    broker.call(ListGroupsRequest(), 5)
    broker.advance(5)
    broker.call(FindCoordinatorRequest(coordinator_keys=("g",)), 4)

    assert handle.hits == 2


def test_an_optional_fault_may_stay_without_hits_and_a_removed_one_may_not() -> None:
    broker = FaultyBroker()
    broker.add("ListGroups", error=_ERROR, optional=True)
    with broker.add("Produce", drop=True, name="no produce"):
        pass

    assert [handle.name for handle in broker.faults.list()] == [f"ListGroups error='{_ERROR}'"]
    with pytest.raises(AssertionError, match="the fault 'no produce' never acted:\n  no requests of Produce came"):
        broker.faults.check_hits()
    broker.faults.clear()
    broker.faults.check_hits()
    assert broker.core.faults is None


def test_the_first_error_of_a_whole_request_is_the_last_fault_that_acts() -> None:
    broker = FaultyBroker()
    first = broker.add("ListGroups", error=_ERROR, times=1)
    second = broker.add("ListGroups", error="NOT_COORDINATOR")

    assert [_list(broker), _list(broker)] == [15, 16]
    assert (first.hits, second.hits) == (1, 1)


def test_hits_are_in_the_journal() -> None:
    broker = FaultyBroker()
    broker.add("ListGroups", error=_ERROR, name="down", times=1)
    broker.call(ListGroupsRequest(), 5)
    broker.call(ListGroupsRequest(), 5)
    hit, other = broker.core.journal.exchanges("ListGroups")

    assert (hit.faults, other.faults) == (("down",), ())
    assert hit.to_json()["faults"] == ["down"]


def test_a_fault_of_what_this_cluster_does_not_have_is_refused() -> None:
    broker = FaultyBroker(release="4.3")
    with pytest.raises(FaultError, match="api: this cluster does not serve StreamsGroupTopologyDescriptionUpdate"):
        broker.add("StreamsGroupTopologyDescriptionUpdate", drop=True)
    with pytest.raises(FaultError, match="node: 3 is not one of 0"):
        broker.add("Produce", node=3, drop=True)

    assert broker.faults.list() == []


def test_a_wrong_fault_changes_nothing() -> None:
    broker = FaultyBroker()
    with pytest.raises(FaultError, match="names no group"):
        broker.faults.add(Fault(when=When(api="Produce", group="g"), then=Then(drop="close")))
    with pytest.raises(FaultError, match="unknown field"):
        broker.faults.add({"when": {"api": "Produce"}, "then": {"dorp": "close"}})

    assert broker.faults.list() == []
    added = broker.faults.add({"when": {"api": "Produce"}, "then": {"drop": "close"}})
    assert added.fault == Fault(when=When(api="Produce"), then=Then(drop="close"))


def test_a_thousand_faults_act_on_their_own_requests_only() -> None:
    broker = FaultyBroker()
    for number in range(1000):
        broker.add("Metadata", client_id=f"client-{number}", error="REQUEST_TIMED_OUT")
    topics = [MetadataRequestTopic(name="A")]

    assert broker.call(MetadataRequest(topics=topics), 12, connection="7").topics[0].error_code == 7
    assert broker.call(MetadataRequest(topics=topics), 12, connection="a").topics[0].error_code == 0


def test_new_connections_are_dropped() -> None:
    broker = FaultyBroker()
    fault = broker.add(on="connection", node=0, first=2, times=2, drop="reset", name="refused")
    for name in "abcd":
        broker.connect(name)
    broker.core.take_output()

    assert broker.kinds() == ["close", "close"]
    assert fault.hits == 2
    assert _list(broker, connection="d") == 0


def test_a_fault_of_connections_reports_those_that_it_missed() -> None:
    broker = FaultyBroker(nodes=2)
    broker.add(on="connection", node=1, drop=True, name="refused")
    broker.connect("a")

    with pytest.raises(
        AssertionError, match=r"1 connections came(.|\n)*127.0.0.1:\d+ to node 0: its node was 0, not 1"
    ):
        broker.faults.check_hits()
