"""A request is compared with few of many faults; those that are passed over still know the requests that came."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from mockbroker.faults.active_fault import ActiveFault
from mockbroker.faults.fault_index import FaultIndex
from mockbroker.faults.held_requests import HeldRequests
from mockbroker.faults.model import Fault
from mockbroker.faults.request_log import RequestLog
from mockbroker.faults.validation import create_fault
from tests.support.brokers.broker import Broker
from tests.support.brokers.faulty_broker import FaultyBroker

_COUNT = 1_000


def _index(faults: Sequence[Fault]) -> FaultIndex:
    log, held = RequestLog(), HeldRequests(Broker().core, is_on=False)
    return FaultIndex(
        [
            ActiveFault(number, fault, seed="s", now_ms=0, leaders={}, log=log, held=held)
            for number, fault in enumerate(faults, 1)
        ]
    )


def test_of_a_thousand_faults_those_are_found_whose_key_a_request_has_in_their_order() -> None:
    faults = [create_fault("ListGroups", client_id=f"c{number % 500}", drop=True) for number in range(_COUNT)]
    faults.insert(3, create_fault("ListGroups", delay_ms=1))
    found = _index(faults).find({"client_id": ("c1",)})

    assert [active.number for active in found] == [2, 4, 503]


def test_a_request_with_a_topic_twice_finds_each_fault_once() -> None:
    index = _index([create_fault("Metadata", topic="A", delay_ms=1)])

    assert len(index.find({"topic": ("A", "A", None)})) == 1


def test_faults_that_are_passed_over_name_the_latest_requests_and_what_they_miss() -> None:
    broker = FaultyBroker()
    fault = broker.add("ListGroups", client_id="x", drop=True)
    other = broker.add(None, topic="C", drop=True)
    for _ in range(7):
        broker.call(ListGroupsRequest(), 5)
    broker.call(MetadataRequest(topics=[MetadataRequestTopic(name="A")]), 12)

    miss = "ListGroups v5 of client 'client-a' to node 0: its client_id was 'client-a', not 'x'"
    assert fault.near_misses == (miss,) * 5
    assert other.near_misses[3:] == (
        "ListGroups v5 of client 'client-a' to node 0: its topic was none, not 'C'",
        "Metadata v12 of client 'client-a' to node 0: its topic was 'A', not 'C'",
    )
    with pytest.raises(AssertionError, match="7 requests of ListGroups came, the latest of them:"):
        broker.faults.check_hits()


def test_a_fault_does_not_name_requests_that_came_before_it() -> None:
    broker = FaultyBroker()
    broker.add("ListGroups", client_id="x", drop=True)
    broker.call(ListGroupsRequest(), 5)
    fault = broker.add("ListGroups", client_id="y", drop=True)

    assert fault.near_misses == ()
