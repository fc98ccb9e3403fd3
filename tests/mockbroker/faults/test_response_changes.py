"""Arrays that faults change, whole responses of their own, and a wrong length before an answer."""

from __future__ import annotations

from typing import Any

import pytest

from kwire import headers
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.brokers.faulty_broker import FaultyBroker
from tests.support.brokers.producer import produce, record_batch

_METADATA = MetadataRequest(topics=[MetadataRequestTopic(name="A"), MetadataRequestTopic(name="B")])


def _partitions(broker: FaultyBroker) -> list[str]:
    response = broker.call(_METADATA, 12)
    return [f"{topic.name}{row.partition_index}" for topic in response.topics for row in topic.partitions]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"omit_rows": "topics.partitions", "topic": "A", "partition": 1}, ["A0", "B0", "B1"]),
        ({"omit_rows": "topics.partitions", "partition": 0}, ["A1", "B1"]),
        ({"omit_rows": "topics", "topic": "B"}, ["A0", "A1"]),
        ({"omit_rows": ["topics"]}, []),
        ({"double_rows": "topics.partitions", "topic": "A", "partition": 1}, ["A0", "A1", "A1", "B0", "B1"]),
        ({"double_rows": "topics", "topic": "B"}, ["A0", "A1", "B0", "B1", "B0", "B1"]),
        ({"empty_arrays": "topics.partitions", "topic": "A"}, ["B0", "B1"]),
        ({"empty_arrays": "topics", "topic": "A"}, []),
        ({"omit_rows": "topics.partitions", "double_rows": "topics", "partition": 0}, ["A1", "A1", "B1", "B1"]),
    ],
)
def test_rows_are_left_out_doubled_or_all_removed(options: dict[str, Any], expected: list[str]) -> None:
    broker = FaultyBroker()
    fault = broker.add("Metadata", **options)

    assert _partitions(broker) == expected
    assert fault.hits == 1
    fault.remove()
    assert _partitions(broker) == ["A0", "A1", "B0", "B1"]


def test_an_array_of_numbers_is_emptied() -> None:
    broker = FaultyBroker()
    broker.add("Metadata", topic="A", partition=0, empty_arrays=["topics.partitions.isr_nodes", "brokers"])
    response = broker.call(_METADATA, 12)

    assert [list(row.isr_nodes) for topic in response.topics for row in topic.partitions] == [[], [0], [0], [0]]
    assert response.brokers == []


def test_rows_that_an_answer_lacks_are_no_hit() -> None:
    broker = FaultyBroker()
    fault = broker.add("ListGroups", omit_rows="groups")
    broker.call(ListGroupsRequest(), 5)

    assert fault.hits == 0
    assert "its ListGroups response has no such rows" in fault.near_misses[-1]


def test_rows_are_left_out_after_the_work() -> None:
    broker = FaultyBroker()
    broker.add("Produce", omit_rows="responses.partition_responses", after=True)
    response = broker.call(produce(broker.topic("A"), record_batch()), 13)

    assert [list(topic.partition_responses) for topic in response.responses] == [[]]
    assert broker.leader_log("A").end_offset == 1


def test_a_row_of_a_fetch_session_is_left_out() -> None:
    broker = FaultyBroker()
    broker.produce("A", 1)
    broker.add("Fetch", topic="A", partition=1, omit_rows="responses.partitions")
    partitions = [FetchPartition(index, partition_max_bytes=1_000) for index in (0, 1)]
    request = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic_id=broker.topic_id("A"), partitions=partitions)])
    response = broker.call(request, 17)

    assert [row.partition_index for topic in response.responses for row in topic.partitions] == [0]


def test_a_whole_response_replaces_the_work() -> None:
    broker = FaultyBroker()
    fault = broker.add("ListGroups", response={"groups": [{"groupId": "x", "groupState": "Dead"}], "errorCode": 3})
    response = broker.call(ListGroupsRequest(), 5)

    assert [(group.group_id, group.group_state) for group in response.groups] == [("x", "Dead")]
    assert response.error_code == 3
    assert fault.hits == 1


@pytest.mark.parametrize(("after", "records"), [(False, 0), (True, 1)])
def test_a_whole_response_comes_before_or_after_the_work(*, after: bool, records: int) -> None:
    broker = FaultyBroker()
    broker.add("Produce", response={"responses": []}, after=after)
    response = broker.call(produce(broker.topic("A"), record_batch()), 13)

    assert response.responses == []
    assert broker.leader_log("A").end_offset == records


def test_a_whole_response_of_a_field_that_the_version_lacks_is_no_hit() -> None:
    broker = FaultyBroker()
    fault = broker.add("ListGroups", response={"groups": [{"groupId": "x", "groupType": "share"}]})
    old, new = broker.call(ListGroupsRequest(), 4), broker.call(ListGroupsRequest(), 5)

    assert (old.groups, [group.group_id for group in new.groups]) == ([], ["x"])
    assert fault.hits == 1
    assert "an answer of version 4: " in fault.near_misses[0]


@pytest.mark.parametrize("prefix", [0, 3, -1, 2**31 - 1])
def test_an_answer_has_a_wrong_length_before_it(prefix: int) -> None:
    broker = FaultyBroker()
    broker.send(ListGroupsRequest(), 5)
    right = broker.sent_bytes()
    broker.take_response()
    broker.add("ListGroups", length_prefix=prefix, times=1)
    broker.core.submit(
        broker.connect("b"), headers.encode_request(ListGroupsRequest(), 5, 1, "client-a"), broker.now_ms
    )
    broker.core.take_output()
    wrong = broker.sent_bytes()

    assert wrong[:4] == prefix.to_bytes(4, "big", signed=True)
    assert len(wrong) == len(right)
    assert wrong[8:] == right[8:]
    assert broker.call(ListGroupsRequest(), 5).error_code == 0


@pytest.mark.parametrize(
    ("options", "size"), [({"answer": "twice"}, 2), ({"drip_bytes": 5}, 1), ({"truncate": 4}, None)]
)
def test_a_wrong_length_goes_with_other_actions_on_bytes(options: dict[str, Any], size: int | None) -> None:
    broker = FaultyBroker()
    broker.add("Heartbeat", length_prefix=77, **options)
    frame = headers.encode_request(HeartbeatRequest(group_id="g", member_id="m"), 4, 1, "a")
    broker.core.submit(broker.connect("a"), frame, broker.now_ms)
    broker.advance(100)
    sent = broker.sent_bytes()

    body = len(sent) // (size or 1) - 4
    assert sent[:4] == (77).to_bytes(4, "big")
    assert sent.count((77).to_bytes(4, "big") + (1).to_bytes(4, "big")) == (size or 1)
    assert body == 4 if size is None else body > 8
