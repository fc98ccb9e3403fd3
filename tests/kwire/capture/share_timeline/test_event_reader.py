"""Events read from rows of messages: sessions, the order of requests, and events of whole groups."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kwire.capture.model import Row
from kwire.capture.reader import read_rows
from kwire.capture.share_timeline import share_timeline
from kwire.capture.share_timeline.event_context import EventContext, read_context_events
from tests.support.captures.capture_files import CAPTURES

S = 1_000_000_000
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
GROUP = 32


def message(
    at: float, api: str, request: Any, response: Any, *, took: float = 0.001, conn: str = "c", **more: Any
) -> Row:
    """A row of `messages`, with the second of the request and the delay of the response."""
    return {
        "file": "f",
        "conn_id": conn,
        "stream_epoch": 0,
        "client_id": "client",
        "api_name": api,
        "correlation_id": int(at * 1000),
        "req_ts": int(at * S),
        "req_end_ts": int(at * S),
        "resp_ts": None if response is None else int((at + took) * S),
        "resp_end_ts": None if response is None else int((at + took) * S),
        "body_request": json.dumps(request),
        "body_response": None if response is None else json.dumps(response),
        **more,
    }


def fetch(
    at: float, epoch: int, *, member: str = "A", listed: Any = (), forgotten: Any = (), given: Any = (), **more: Any
) -> Row:
    """A ShareFetch; listed: (partition, acknowledgement batches). given: (partition, first, last, count)."""
    partitions = [
        {
            "partitionIndex": number,
            "acknowledgementBatches": [
                {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": types} for first, last, types in batches
            ],
        }
        for number, batches in listed
    ]
    request = {
        "groupId": "g",
        "memberId": member,
        "shareSessionEpoch": epoch,
        "topics": [{"topicId": TOPIC_ID, "partitions": partitions}],
        "forgottenTopicsData": [{"topicId": TOPIC_ID, "partitions": list(forgotten)}],
    }
    names = ("firstOffset", "lastOffset", "deliveryCount")
    acquired = [(number, dict(zip(names, run, strict=True))) for number, *run in given]
    rows = [{"partitionIndex": number, "acquiredRecords": [run]} for number, run in acquired]
    response = {
        "errorCode": more.pop("error", 0),
        "acquisitionLockTimeoutMs": 30_000,
        "responses": [{"topicId": TOPIC_ID, "partitions": rows}],
    }
    return message(at, "ShareFetch", request, response, **more)


ACQUIRING = fetch(1, 0, listed=[(0, [])], given=[(0, 0, 4, 1)])


def close(at: float, *, member: str = "A", **more: Any) -> Row:
    request = {"groupId": "g", "memberId": member, "shareSessionEpoch": -1, "topics": []}
    return message(at, "ShareAcknowledge", request, {"errorCode": 0, "responses": []}, **more)


def transitions_of(messages: list[Row], flows: list[Row] | None = None) -> list[tuple[object, ...]]:
    found = share_timeline(messages, flows or [])
    return [(row["cause"], row["partition"], row["first_offset"], row["state"]) for row in found]


def test_a_closed_session_releases_the_records_of_its_partitions_but_not_of_forgotten_ones() -> None:
    both = fetch(1, 0, listed=[(0, []), (1, [])], given=[(0, 0, 4, 1), (1, 0, 4, 1)])
    found = transitions_of([both, fetch(2, 1, forgotten=[1]), close(3)])

    assert found == [("acquire", 0, 0, "Acquired"), ("session_close", 0, 0, "Available"), ("acquire", 1, 0, "Acquired")]


def test_a_session_that_is_opened_again_releases_nothing() -> None:
    found = transitions_of([ACQUIRING, fetch(2, 0, listed=[(0, [])])])

    assert found == [("acquire", 0, 0, "Acquired")]


def test_a_rejected_close_does_not_close_the_session() -> None:
    refused = {**close(3), "body_response": json.dumps({"errorCode": 122, "responses": []})}

    assert transitions_of([ACQUIRING, refused]) == [("acquire", 0, 0, "Acquired")]


def test_the_end_of_its_connection_closes_the_session() -> None:
    goes_on = fetch(2, 1, conn="other", given=[(0, 5, 5, 1)])

    def flow(conn: str, ended: str) -> Row:
        return {"file": "f", "conn_id": conn, "stream_epoch": 0, "last_ts": 3 * S, "ended": ended}

    of_other = transitions_of([ACQUIRING, goes_on], [flow("other", "fin"), flow("c", "end")])
    of_maker = transitions_of([ACQUIRING, goes_on], [flow("c", "rst")])
    assert [cause for cause, *_ in of_other] == ["acquire", "acquire"]
    assert [cause for cause, *_ in of_maker] == ["acquire", "acquire", "session_close"]


def test_a_request_after_a_long_poll_is_processed_after_the_response_to_the_poll() -> None:
    found = transitions_of([fetch(1, 0, listed=[(0, [])], given=[(0, 0, 4, 1)], took=5), close(2)])

    assert found == [("acquire", 0, 0, "Acquired"), ("session_close", 0, 0, "Available")]


def test_the_last_entry_of_a_partition_that_is_listed_twice_is_used() -> None:
    acknowledgements = [(0, [(0, 4, [1])]), (0, [(0, 4, [2])])]
    found = transitions_of([ACQUIRING, fetch(2, 1, listed=acknowledgements)])

    assert found[1:] == [("release", 0, 0, "Available")]


def test_an_error_of_the_whole_response_rejects_all_acknowledgements() -> None:
    rejected = fetch(2, 1, listed=[(0, [(0, 4, [1])])], error=123)

    assert len(transitions_of([ACQUIRING, rejected])) == 1


def test_state_requests_of_other_clients_are_not_events() -> None:
    partition_key = {"topicId": TOPIC_ID, "partitions": [{"partition": 0, "leaderEpoch": 0}]}
    row = {"partition": 0, "errorCode": 0, "startOffset": 9, "stateBatches": []}
    results = [{"topicId": TOPIC_ID, "partitions": [row]}]
    read = message(2, "ReadShareGroupState", {"groupId": "g", "topics": [partition_key]}, {"results": results})

    assert transitions_of([ACQUIRING, read]) == [("acquire", 0, 0, "Acquired")]
    assert transitions_of([ACQUIRING, {**read, "client_id": "Persister-client-1"}])[1:] == [("load", 0, 9, "Available")]


def altered(value: str | None, *, error: int = 0, only_checked: bool = False) -> Row:
    config = {"name": "share.delivery.count.limit", "configOperation": 0 if value else 1, "value": value}
    resource = {"resourceType": GROUP, "resourceName": "g", "configs": [config]}
    request = {"resources": [resource], "validateOnly": only_checked}
    response = {"responses": [{"resourceType": GROUP, "resourceName": "g", "errorCode": error}]}
    return message(1, "IncrementalAlterConfigs", request, response)


def test_the_delivery_limit_is_read_from_alter_configs_and_describe_configs() -> None:
    configs = [{"name": "group.share.delivery.count.limit", "value": "7"}, {"name": "log.dirs", "value": "9"}]
    broker = {"resourceType": 4, "resourceName": "0", "configs": configs}
    described = message(1, "DescribeConfigs", {"resources": []}, {"results": [broker]})

    assert [fact.value for fact in read_context_events(altered("3"))] == [3]
    assert [fact.value for fact in read_context_events(altered(None))] == [None]
    assert [*read_context_events(altered("3", error=40)), *read_context_events(altered("3", only_checked=True))] == []
    assert [(fact.group_id, fact.value) for fact in read_context_events(described)] == [(None, 7)]


def test_a_deletion_concerns_only_share_partitions_of_its_group_and_topic() -> None:
    offsets = {"responses": [{"topicId": TOPIC_ID, "topicName": "orders", "errorCode": 0}]}
    log = {"topics": [{"name": "orders", "partitions": [{"partitionIndex": 0, "errorCode": 0, "lowWatermark": 8}]}]}
    groups = {"results": [{"groupId": "h", "errorCode": 0}]}
    rows = (
        message(1, "DeleteShareGroupOffsets", {"groupId": "g", "topics": []}, offsets),
        message(2, "DeleteGroups", {"groupsNames": ["h"]}, groups),
        message(3, "DeleteRecords", {}, log),
    )
    known = EventContext(event for row in rows for event in read_context_events(row))

    def events(*share_partition: Any) -> list[tuple[str, int | None]]:
        return [(each.note or each.kind.name, each.start) for each in known.events_of_partition(*share_partition)]

    assert known.names == {TOPIC_ID: "orders"}
    assert events("g", TOPIC_ID, 0) == [("delete_offsets", None), ("LOG_START", 8)]
    assert events("g", "another", 0) == []
    assert events("h", "another", 1) == [("delete_group", None)]


def test_topic_names_are_from_any_message_and_from_the_user() -> None:
    metadata = message(2, "Metadata", {}, {"topics": [{"name": "orders", "topicId": TOPIC_ID}]})

    assert [row["topic"] for row in share_timeline([ACQUIRING, metadata])] == ["orders"]
    assert [row["topic"] for row in share_timeline([ACQUIRING], topics={TOPIC_ID: "bills"})] == ["bills"]
    assert [row["topic"] for row in share_timeline([ACQUIRING])] == [None]


def leads(at: float, leader: int, epoch: int) -> Row:
    """A Metadata response with the leader of partition 0."""
    row = {"partitionIndex": 0, "leaderId": leader, "leaderEpoch": epoch}
    response = {"topics": [{"name": "t", "topicId": TOPIC_ID, "partitions": [row]}]}
    return message(at, "Metadata", {}, response, conn="x>b")


def causes(*rows: Row, **more: Any) -> list[tuple[object, ...]]:
    columns = ("cause", "first_offset", "state", "delivery_count", "is_inferred")
    return [tuple(row[column] for column in columns) for row in share_timeline(rows, **more)]


def test_records_of_the_old_leader_have_their_persisted_state_after_a_fetch_from_the_new_leader() -> None:
    found = causes(
        leads(0, 1, 4),
        fetch(1, 0, listed=[(0, ())], given=[(0, 5, 9, 3)], conn="a>b1"),
        leads(2, 2, 5),
        fetch(3, 0, listed=[(0, ())], conn="a>b2"),
        leads(60, 2, 5),
    )

    assert found == [
        ("acquire", 5, "Acquired", 3, False),
        ("load", 5, "Available", 0, True),
        ("load", 5, "Available", 2, True),
    ]


def test_locks_of_the_old_leader_expire_until_a_fetch_from_the_new_leader() -> None:
    found = causes(
        leads(0, 1, 4),
        fetch(1, 0, listed=[(0, ())], given=[(0, 0, 4, 1)], conn="a>b1"),
        leads(2, 2, 5),
        fetch(40, 0, listed=[(0, ())], conn="a>b2"),
    )

    assert [each[:2] for each in found] == [("acquire", 0), ("lock_timeout", 0), ("load", 0)]


def test_metadata_with_the_same_leader_is_no_leader_change() -> None:
    found = causes(
        leads(0, 1, 4), fetch(1, 0, listed=[(0, ())], given=[(0, 0, 4, 1)], conn="a>b1"), leads(2, 1, 4),
        fetch(3, 0, member="B", listed=[(0, ())], conn="c>b1"),
    )  # fmt: skip

    assert [each[0] for each in found] == ["acquire"]


def test_a_deleted_topic_ends_its_share_partitions() -> None:
    gone = message(2, "DeleteTopics", {}, {"responses": [{"errorCode": 0, "name": "t", "topicId": TOPIC_ID}]})
    found = causes(ACQUIRING, gone, close(3), leads(90, 1, 1))

    assert [each[0] for each in found] == ["acquire", "delete_topic"]


def test_acknowledgement_types_of_the_first_drafts_begin_with_accept() -> None:
    acknowledgements = [(0, 0, [0]), (1, 1, [1]), (2, 2, [2])]
    rows = (ACQUIRING, fetch(2, 1, listed=[(0, acknowledgements)]))

    assert [each[0] for each in causes(*rows)][1:] == ["gap", "accept", "release"]
    assert [each[0] for each in causes(*rows, edition="kip932-r2")][1:] == ["accept", "release", "reject"]


def test_without_a_lock_duration_in_the_response_the_argument_is_used() -> None:
    body = str(ACQUIRING["body_response"]).replace('"acquisitionLockTimeoutMs": 30000, ', "")
    row = {**ACQUIRING, "body_response": body}

    closing = close(8, member="B")
    assert [each[0] for each in causes(row, closing)] == ["acquire"]
    assert [each[0] for each in causes(row, closing, lock_duration_ms=5_000)] == ["acquire", "lock_timeout"]


@pytest.mark.parametrize("name", ["share", "jshare"])
def test_the_stored_state_of_the_timeline_is_what_the_leader_wrote(name: str) -> None:
    """WriteShareGroupState requests of the broker are removed from the capture, and compared afterwards."""
    path = CAPTURES / f"small_{name}.pcap"
    messages = list(read_rows(path, "messages"))
    hidden = [row for row in messages if row["api_name"] != "WriteShareGroupState"]
    timeline = share_timeline(hidden, read_rows(path, "flows"))

    stored = {(row["topic_id"], row["partition"]): _stored(row) for row in timeline}
    written = {place: state for row in messages for place, state in _written(row)}
    assert {place: stored[place] for place in written} == written
    assert len(written) == (2 if name == "share" else 0)


def _stored(row: Row) -> tuple[object, ...]:
    return row["stored_start_offset"], row["delivery_complete_count"]


def _written(row: Row) -> list[tuple[tuple[str, int], tuple[object, ...]]]:
    if row["api_name"] != "WriteShareGroupState":
        return []
    return [
        ((topic["topicId"], each["partition"]), (each["startOffset"], each["deliveryCompleteCount"]))
        for topic in json.loads(str(row["body_request"]))["topics"]
        for each in topic["partitions"]
    ]
