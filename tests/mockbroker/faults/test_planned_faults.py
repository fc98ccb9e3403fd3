"""What faults do: errors before and after the work, delays, closed connections, and changed bytes."""

from __future__ import annotations

from typing import Any

import pytest

from kwire import headers
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kwire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import read_batches
from mockbroker.faults import FaultError
from mockbroker.journal.response_conditions import describe_errors
from tests.support.brokers.faulty_broker import FaultyBroker
from tests.support.brokers.producer import produce, record_batch
from tests.support.client_quotas import limit_client

_NOT_LEADER = 6


def _produce_to_all(broker: FaultyBroker) -> dict[str, int]:
    """Produce a record to each partition; the error codes by topic and partition."""
    rows = [
        TopicProduceData(
            topic_id=broker.topic_id(name),
            partition_data=[PartitionProduceData(index, record_batch()) for index in (0, 1)],
        )
        for name in ("A", "B")
    ]
    response = broker.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=rows), 13)
    return {
        f"{broker._topic_name(topic.topic_id)}{row.index}": row.error_code
        for topic in response.responses
        for row in topic.partition_responses
    }


def _ends(broker: FaultyBroker) -> dict[str, int]:
    return {f"{name}{index}": broker.leader_log(name, index).end_offset for name in ("A", "B") for index in (0, 1)}


@pytest.mark.parametrize(
    ("options", "faulty"),
    [
        ({"topic": "A", "partition": 1}, {"A1"}),
        ({"topic": "A"}, {"A0", "A1"}),
        ({"partition": 0}, {"A0", "B0"}),
        ({}, {"A0", "A1", "B0", "B1"}),
    ],
)
@pytest.mark.parametrize("after", [False, True])
def test_an_error_is_in_the_rows_that_match_and_the_others_are_handled(
    options: dict[str, Any], faulty: set[str], *, after: bool
) -> None:
    broker = FaultyBroker()
    broker.add("Produce", error="NOT_LEADER_OR_FOLLOWER", after=after, **options)

    codes = _produce_to_all(broker)

    assert {name for name, code in codes.items() if code == _NOT_LEADER} == faulty
    assert set(codes) == {"A0", "A1", "B0", "B1"}
    written = {name for name, end in _ends(broker).items() if end}
    assert written == (set(codes) if after else set(codes) - faulty)


def test_two_faults_give_errors_to_their_own_rows() -> None:
    broker = FaultyBroker()
    broker.add("Produce", topic="A", partition=0, error="NOT_LEADER_OR_FOLLOWER")
    broker.add("Produce", topic="B", error="MESSAGE_TOO_LARGE")

    assert _produce_to_all(broker) == {"A0": 6, "A1": 0, "B0": 10, "B1": 10}


@pytest.mark.parametrize("options", [{}, {"topic": "A", "partition": 0}])
def test_a_produce_without_an_answer_is_answered_by_closing_as_in_kafka(options: dict[str, Any]) -> None:
    broker = FaultyBroker()
    broker.add("Produce", error="NOT_LEADER_OR_FOLLOWER", **options)
    broker.send(produce(broker.topic("A"), record_batch(), acks=0), 13)

    assert "NOT_LEADER_OR_FOLLOWER" in broker.closed["a"]


def test_an_error_of_a_topic_leaves_the_other_topics_of_metadata() -> None:
    broker = FaultyBroker()
    broker.add("Metadata", topic="A", error="LEADER_NOT_AVAILABLE")
    request = MetadataRequest(topics=[MetadataRequestTopic(name="A"), MetadataRequestTopic(name="B")])

    response = broker.call(request, 12)

    assert {topic.name: topic.error_code for topic in response.topics} == {"A": 5, "B": 0}
    assert response.brokers


def test_metadata_of_all_topics_has_the_error_of_a_topic() -> None:
    broker = FaultyBroker()
    with broker.add("Metadata", topic="A", error="UNKNOWN_TOPIC_OR_PARTITION") as fault:
        faulty = {topic.name: topic for topic in broker.call(MetadataRequest(topics=None), 12).topics}
    later = {topic.name: topic for topic in broker.call(MetadataRequest(topics=None), 12).topics}

    assert (faulty["A"].error_code, faulty["A"].partitions) == (3, [])
    assert (faulty["B"].error_code, len(faulty["B"].partitions)) == (0, 2)
    assert (later["A"].error_code, len(later["A"].partitions)) == (0, 2)
    assert fault.hits == 1


def test_an_error_can_be_put_into_the_partitions_of_metadata() -> None:
    broker = FaultyBroker()
    broker.add("Metadata", topic="A", error="LEADER_NOT_AVAILABLE", error_at="partition")
    request = MetadataRequest(topics=[MetadataRequestTopic(name="A"), MetadataRequestTopic(name="B")])

    response = broker.call(request, 12)

    rows = {topic.name: [row.error_code for row in topic.partitions] for topic in response.topics}
    assert rows == {"A": [5, 5], "B": [0, 0]}
    broker.faults.clear()
    assert [row.error_code for row in broker.call(request, 12).topics[0].partitions] == [0, 0]


def test_an_error_after_the_work_leaves_the_topic() -> None:
    broker = FaultyBroker()
    broker.add("CreateTopics", topic="new", error="REQUEST_TIMED_OUT", after=True)
    broker.add("CreateTopics", topic="other", error="REQUEST_TIMED_OUT")
    for name in ("new", "other"):
        request = CreateTopicsRequest(topics=[CreatableTopic(name, 1, 1)], timeout_ms=1000)
        assert broker.call(request, 7).topics[0].error_code == 7

    assert broker.metadata.topic("new") is not None
    assert broker.metadata.topic("other") is None


def test_errors_of_offset_commits_are_by_partition() -> None:
    broker = FaultyBroker()
    broker.add("OffsetCommit", group="g", topic="A", partition=1, error="OFFSET_METADATA_TOO_LARGE")
    rows = [OffsetCommitRequestPartition(index, 5) for index in (0, 1)]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("A", partitions=rows)])
    codes = [row.error_code for row in broker.call(request, 9).topics[0].partitions]
    codes = codes or [row.error_code for row in broker.take_response().topics[0].partitions]

    assert sorted(codes) == [0, 12]


def _fetch(broker: FaultyBroker, *indexes: int, session: tuple[int, int] = (0, -1)) -> Any:
    rows = [FetchPartition(index, fetch_offset=0, partition_max_bytes=10_000) for index in indexes]
    topics = [FetchTopic(topic_id=broker.topic_id("A"), partitions=rows)] if rows else []
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=100_000, session_id=session[0], session_epoch=session[1], topics=topics
    )
    return broker.call(request, 17)


def test_a_fetch_has_the_error_of_a_partition_beside_the_records_of_another() -> None:
    broker = FaultyBroker()
    for index in (0, 1):
        broker.call(produce(broker.topic("A"), record_batch(), partition=index), 13)
    broker.add("Fetch", topic="A", partition=1, error="NOT_LEADER_OR_FOLLOWER", times=1)

    rows = {row.partition_index: row for row in _fetch(broker, 0, 1).responses[0].partitions}

    assert (rows[0].error_code, rows[1].error_code) == (0, 6)
    assert rows[0].records
    assert not rows[1].records
    assert [row.error_code for row in _fetch(broker, 0, 1).responses[0].partitions] == [0, 0]


@pytest.mark.parametrize("after", [False, True])
def test_a_fetch_that_continues_a_session_names_no_partition_and_has_the_error(*, after: bool) -> None:
    broker = FaultyBroker()
    broker.call(produce(broker.topic("A"), record_batch()), 13)
    opened = _fetch(broker, 0, 1, session=(0, 0))
    broker.add("Fetch", topic="A", partition=1, error="OFFSET_OUT_OF_RANGE", after=after, times=1)

    rows = _fetch(broker, session=(opened.session_id, 1)).responses[0].partitions

    assert {row.partition_index: row.error_code for row in rows}[1] == 1


def test_a_share_fetch_with_an_error_acquires_nothing_of_that_partition() -> None:
    broker = FaultyBroker()
    broker.fetch("m1", 0, "A0", "A1")
    broker.produce("A", 2)
    broker.produce("A", 3, partition=1)
    broker.add("ShareFetch", group="g", topic="A", partition=0, error="NOT_LEADER_OR_FOLLOWER", times=1)

    assert broker.fetch("m1", 1) == "A0 !6 | A1 0-2/1"
    assert broker.fetch("m1", 2) == "A0 0-1/1"


def test_a_share_acknowledge_with_an_error_keeps_its_session_and_its_locks() -> None:
    broker = FaultyBroker()
    broker.fetch("m1", 0, "A0")
    broker.produce("A", 3)
    assert broker.fetch("m1", 1) == "A0 0-2/1"
    fault = broker.add("ShareAcknowledge", topic="A", partition=0, times=2, error="NOT_LEADER_OR_FOLLOWER")

    answers = [broker.ack("m1", epoch, {("A", 0): [(0, 2, [1])]}) for epoch in (2, 3, 4)]

    assert answers == ["A0 !6", "A0 !6", "A0"]
    assert fault.hits == 2


def test_a_delay_before_the_work_is_on_the_clock_of_the_cluster() -> None:
    broker = FaultyBroker()
    broker.add("Produce", delay_ms=100, times=1)
    broker.send(produce(broker.topic("A"), record_batch()), 13)
    broker.send(produce(broker.topic("B"), record_batch()), 13)
    broker.advance(99)

    assert broker.take_response() is None
    assert _ends(broker)["A0"] == _ends(broker)["B0"] == 0
    broker.advance(1)
    assert broker.take_response().responses[0].topic_id == broker.topic_id("A")
    assert broker.take_response().responses[0].topic_id == broker.topic_id("B")


def test_a_delay_after_the_work_holds_the_answer() -> None:
    broker = FaultyBroker()
    broker.add("Produce", delay_ms=100, after=True)
    broker.send(produce(broker.topic("A"), record_batch()), 13)

    assert broker.core.next_deadline_ms() == broker.now_ms + 100
    assert _ends(broker)["A0"] == 1
    assert broker.take_response() is None
    broker.advance(100)
    assert broker.take_response() is not None
    assert broker.core.journal.exchanges("Produce")[0].answered_ms == broker.now_ms


def test_jitter_is_at_most_its_size_and_differs() -> None:
    broker = FaultyBroker()
    broker.add("ListGroups", delay_ms=10, jitter_ms=20)
    times = []
    for _ in range(12):
        began = broker.now_ms
        broker.send(ListGroupsRequest(), 5)
        while broker.take_response() is None:
            broker.advance(1)
        times.append(broker.now_ms - began)

    assert 10 <= min(times) < max(times) <= 30


@pytest.mark.parametrize("drop", ["close", "reset"])
@pytest.mark.parametrize("after", [False, True])
def test_a_dropped_connection_has_done_the_work_or_not(drop: str, *, after: bool) -> None:
    broker = FaultyBroker()
    broker.add("Produce", drop=drop, after=after, name="gone")
    broker.send(produce(broker.topic("A"), record_batch()), 13)
    broker.send(ListGroupsRequest(), 5)

    assert _ends(broker)["A0"] == int(after)
    assert broker.kinds() == ["note", "close"]
    assert broker.closed["a"] == "fault: gone"
    assert broker.core.journal.exchanges("Produce")[0].closed == "fault: gone"


def test_a_request_without_an_answer_holds_those_behind_it_until_the_client_leaves() -> None:
    broker = FaultyBroker()
    broker.add("ListGroups", answer="never", times=1)
    broker.send(ListGroupsRequest(), 5)
    broker.send(ListGroupsRequest(), 5)
    broker.advance(100_000)

    assert broker.kinds() == ["note"]
    broker.disconnect("a")
    assert broker.call(ListGroupsRequest(), 5, connection="b") is not None


def test_a_delayed_request_of_a_connection_that_ended_is_dropped() -> None:
    broker = FaultyBroker()
    broker.add("Produce", delay_ms=100)
    broker.send(produce(broker.topic("A"), record_batch()), 13)
    broker.disconnect("a")
    broker.advance(100)

    assert _ends(broker)["A0"] == 0


def test_an_answer_is_sent_twice() -> None:
    broker = FaultyBroker()
    broker.add("ListGroups", answer="twice")
    broker._expected_responses.clear()
    connection = broker.connect("raw")
    broker.core.submit(connection, headers.encode_request(ListGroupsRequest(), 5, 77, "c"), broker.now_ms)
    bodies = [output.body for output in broker.core.take_output()]  # type: ignore[union-attr]

    assert len(bodies) == 2
    assert bodies[0] == bodies[1]
    assert int.from_bytes(bodies[0][:4], "big") == 77


def _raw(broker: FaultyBroker, *requests: Any) -> bytes:
    """Send requests on a connection of their own; the bytes that come back."""
    connection = broker.core.connect(0, "127.0.0.1", 40_000)
    for number, request in enumerate(requests, 1):
        broker.core.submit(connection, headers.encode_request(request, 5, number, "raw"), broker.now_ms)
    broker.core.take_output()
    return broker.sent_bytes()


def _ids(data: bytes) -> list[int]:
    ids = []
    while data:
        size = int.from_bytes(data[:4], "big")
        ids.append(int.from_bytes(data[4:8], "big"))
        data = data[4 + size :]
    return ids


def test_a_late_answer_follows_that_of_the_next_request() -> None:
    broker = FaultyBroker()
    broker.add("ListGroups", answer="late", times=1)

    assert _ids(_raw(broker, ListGroupsRequest(), ListGroupsRequest(), ListGroupsRequest())) == [2, 1, 3]


def test_a_late_answer_is_sent_though_its_fault_was_removed() -> None:
    broker = FaultyBroker()
    fault = broker.add("ListGroups", answer="late")
    connection = broker.core.connect(0, "127.0.0.1", 40_000)
    for number in (1, 2, 3):
        frame = headers.encode_request(ListGroupsRequest(), 5, number, "raw")
        broker.core.submit(connection, frame, broker.now_ms)
        fault.remove()
    broker.core.take_output()

    assert _ids(broker.sent_bytes()) == [2, 1, 3]
    assert broker.core.faults is None


def test_an_answer_has_another_correlation_id() -> None:
    broker = FaultyBroker()
    broker.add("ListGroups", wrong_correlation_id=True, times=1)

    first, second = _ids(_raw(broker, ListGroupsRequest(), ListGroupsRequest()))

    assert first != 1
    assert second == 2


def test_flipped_bits_are_as_many_as_asked_and_leave_the_correlation_id() -> None:
    broker = FaultyBroker()
    plain = _raw(broker, ListGroupsRequest())
    broker.add("ListGroups", flip_bits=5)
    changed = _raw(broker, ListGroupsRequest())

    assert len(plain) == len(changed)
    assert plain[:8] == changed[:8]
    assert sum((one ^ other).bit_count() for one, other in zip(plain, changed, strict=True)) == 5


def test_a_truncated_answer_has_its_whole_length_in_front_and_ends_the_connection() -> None:
    broker = FaultyBroker()
    plain = _raw(broker, ListGroupsRequest())
    broker.add("ListGroups", truncate=6)
    connection = broker.core.connect(0, "127.0.0.1", 40_000)
    broker.core.submit(connection, headers.encode_request(ListGroupsRequest(), 5, 1, "raw"), broker.now_ms)
    broker.core.take_output()
    outputs = list(broker.outputs)

    assert broker.sent_bytes() == plain[:10]
    broker.outputs = outputs
    assert broker.kinds() == ["bytes", "close"]


def test_an_answer_drips_and_the_next_one_follows() -> None:
    broker = FaultyBroker()
    plain = _raw(broker, ListGroupsRequest(), ListGroupsRequest())
    broker.add("ListGroups", drip_bytes=3, drip_ms=10, times=1)
    sent = _raw(broker, ListGroupsRequest(), ListGroupsRequest())
    sizes = [len(sent)]
    while len(sent) < len(plain):
        broker.advance(10)
        part = broker.sent_bytes()
        sizes.append(len(part))
        sent += part

    assert sent == plain
    assert set(sizes[:-1]) == {3}


def test_a_throttle_time_is_in_the_answer_and_holds_the_next_request() -> None:
    broker = FaultyBroker()
    broker.add("ListGroups", throttle_ms=50, times=1)
    broker.send(ListGroupsRequest(), 5)
    broker.send(ListGroupsRequest(), 5)

    assert broker.take_response().throttle_time_ms == 50
    assert broker.take_response() is None
    broker.advance(50)
    assert broker.take_response().throttle_time_ms == 0


@pytest.mark.parametrize(("fault_ms", "shown_ms", "muted_ms"), [(50, 50, 19_000), (60_000, 60_000, 60_000)])
def test_a_throttle_time_of_a_fault_does_not_shorten_that_of_a_quota(
    fault_ms: int, shown_ms: int, muted_ms: int
) -> None:
    broker = FaultyBroker()
    limit_client(broker, "controller_mutation_rate", 1)
    broker.add("CreateTopics", throttle_ms=fault_ms)
    response = broker.call(CreateTopicsRequest([CreatableTopic("new", 30, 1)], 1_000), 5)
    broker.send(ListGroupsRequest(), 5)
    broker.advance(muted_ms - 1)
    before = broker.take_response()
    broker.advance(1)

    assert (response.throttle_time_ms, before) == (shown_ms, None)
    assert broker.take_response() is not None


@pytest.mark.parametrize("fault", [{"delay_ms": 100, "after": True}, {"drip_bytes": 9, "drip_ms": 1}])
def test_the_channel_of_a_throttled_client_is_muted_after_a_changed_answer(fault: dict[str, Any]) -> None:
    broker = FaultyBroker()
    limit_client(broker, "controller_mutation_rate", 1)
    broker.add("CreateTopics", **fault)
    broker.connect("a")
    number = broker.core.connection_count
    broker.send(CreateTopicsRequest([CreatableTopic("new", 30, 1)], 1_000), 5)
    broker.core.advance(broker.now_ms + 1_000)
    is_muted = number in broker.core.requests.muted
    broker.core.advance(broker.now_ms + 21_000)

    assert is_muted
    assert number not in broker.core.requests.muted


def test_corrupt_records_have_a_wrong_crc_and_those_of_the_log_stay() -> None:
    broker = FaultyBroker()
    for index in (0, 1):
        broker.call(produce(broker.topic("A"), record_batch(), partition=index), 13)
    broker.add("Fetch", topic="A", partition=0, corrupt_records=True, times=1)

    first = {row.partition_index: bytes(row.records) for row in _fetch(broker, 0, 1).responses[0].partitions}
    second = {row.partition_index: bytes(row.records) for row in _fetch(broker, 0, 1).responses[0].partitions}

    assert first[1] == second[1]
    assert first[0] != second[0]
    assert sum((one ^ other).bit_count() for one, other in zip(first[0], second[0], strict=True)) == 1
    assert list(read_batches(second[0]))


def test_half_closed_connections_are_not_answered() -> None:
    broker = FaultyBroker()
    broker.add("ListGroups", drop="half-close")
    broker.send(ListGroupsRequest(), 5)

    assert broker.kinds() == ["note", "half-close"]


def test_fields_of_the_response_are_set_in_the_rows_that_match() -> None:
    broker = FaultyBroker()
    broker.add("Fetch", partition=1, set_fields={"responses.partitions.high_watermark": 99, "session_id": 5})

    response = _fetch(broker, 0, 1)
    if response is None:
        broker.advance(500)
        response = broker.take_response()

    assert response.session_id == 5
    assert {row.partition_index: row.high_watermark for row in response.responses[0].partitions} == {0: 0, 1: 99}


def test_unknown_tags_are_in_each_structure_of_a_response_and_in_no_version_without_tags() -> None:
    broker = FaultyBroker()
    broker.add("Metadata", unknown_tags=True)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="A")])

    flexible = broker.call(request, 12)
    fixed = broker.call(request, 8)

    rows = [flexible, flexible.brokers[0], flexible.topics[0], flexible.topics[0].partitions[0]]
    assert all(len(row.unknown_tagged_fields) == 1 for row in rows)
    assert not fixed.unknown_tagged_fields
    assert fixed.topics[0].name == "A"


def test_an_error_code_that_kafka_does_not_have_is_shown_as_its_number() -> None:
    response = MetadataResponse(topics=[MetadataResponseTopic(error_code=9999, name="A")])

    assert describe_errors(response) == "9999"


def test_stale_metadata_has_the_leaders_of_the_time_when_the_fault_was_added() -> None:
    broker = FaultyBroker(nodes=2, config={"default.replication.factor": "2"})
    before = broker.leader("A")
    fault = broker.add("Metadata", topic="A", stale=True)
    broker.core.move_leader("A", 0, broker.now_ms, to=None)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="A"), MetadataRequestTopic(name="B")])

    stale = broker.call(request, 12).topics[0].partitions[0]
    fault.remove()
    fresh = broker.call(request, 12).topics[0].partitions[0]

    assert (stale.leader_id, fresh.leader_id) == (before, 1 - before)
    assert stale.leader_epoch == fresh.leader_epoch - 1


def test_versions_are_listed_up_to_a_limit() -> None:
    broker = FaultyBroker()
    broker.add("ApiVersions", max_versions={"Fetch": 11, "ShareFetch": -1})
    request = ApiVersionsRequest(client_software_name="kwire", client_software_version="1.0")
    versions = {row.api_key: row.max_version for row in broker.call(request, 3).api_keys}

    assert versions[1] == 11
    assert 78 not in versions
    assert versions[0] == 13


def test_requests_above_the_listed_versions_end_the_connection_on_which_they_were_listed() -> None:
    broker = FaultyBroker()
    broker.add("ApiVersions", max_versions={"ListGroups": 3}, times=1)
    request = ApiVersionsRequest(client_software_name="kwire", client_software_version="1.0")
    broker.call(request, 3)
    broker.call(request, 3, connection="b")
    for connection in ("a", "b"):
        broker.send(ListGroupsRequest(), 4, connection=connection)

    assert broker.closed == {"a": "ListGroups version 4 is not served, only 0 to 3"}
    assert broker.take_response("b").error_code == 0


def test_versions_that_are_never_served_cannot_be_listed() -> None:
    with pytest.raises(FaultError, match="max_versions: Fetch: 3 is not served, only 4 to 18"):
        FaultyBroker().add("ApiVersions", max_versions={"Fetch": 3})


@pytest.mark.parametrize("version", [7, 9])
def test_an_error_of_offset_fetch_is_in_the_row_of_the_group_or_at_the_top(version: int) -> None:
    broker = FaultyBroker()
    broker.add("OffsetFetch", group="g", error="COORDINATOR_LOAD_IN_PROGRESS")
    if version >= 8:
        response = broker.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), version)
        assert [(row.group_id, row.error_code) for row in response.groups] == [("g", 14)]
    else:
        response = broker.call(OffsetFetchRequest(group_id="g", topics=None), version)
        assert (response.error_code, response.groups) == (14, [])


@pytest.mark.parametrize(("value", "records"), [(None, None), ("", b"")])
def test_a_field_of_bytes_is_set_to_null_or_to_nothing(value: str | None, records: bytes | None) -> None:
    broker = FaultyBroker()
    broker.add("Fetch", partition=0, set_fields={"responses.partitions.records": value})

    response = _fetch(broker, 0)
    if response is None:
        broker.advance(500)
        response = broker.take_response()

    assert response.responses[0].partitions[0].records == records
