"""What rows of messages tell a timeline: sessions, who waited for whom, and what holds for whole groups."""

from __future__ import annotations

import json
from typing import Any

from kwire.capture.rows import Row
from kwire.capture.share_timeline import share_timeline
from kwire.capture.share_timeline.context import Context, facts

S = 1_000_000_000
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
GROUP = 32


def message(
    at: float, api: str, asked: Any, answered: Any, *, took: float = 0.001, conn: str = "c", **more: Any
) -> Row:
    """A row of `messages`; the request comes at a second, and is answered so much later."""
    return {
        "file": "f",
        "conn_id": conn,
        "stream_epoch": 0,
        "client_id": "client",
        "api_name": api,
        "correlation_id": int(at * 1000),
        "req_ts": int(at * S),
        "req_end_ts": int(at * S),
        "resp_ts": None if answered is None else int((at + took) * S),
        "resp_end_ts": None if answered is None else int((at + took) * S),
        "body_request": json.dumps(asked),
        "body_response": None if answered is None else json.dumps(answered),
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
    asked = {
        "groupId": "g",
        "memberId": member,
        "shareSessionEpoch": epoch,
        "topics": [{"topicId": TOPIC_ID, "partitions": partitions}],
        "forgottenTopicsData": [{"topicId": TOPIC_ID, "partitions": list(forgotten)}],
    }
    rows = [
        {
            "partitionIndex": number,
            "acquiredRecords": [{"firstOffset": first, "lastOffset": last, "deliveryCount": count}],
        }
        for number, first, last, count in given
    ]
    answered = {
        "errorCode": more.pop("error", 0),
        "acquisitionLockTimeoutMs": 30_000,
        "responses": [{"topicId": TOPIC_ID, "partitions": rows}],
    }
    return message(at, "ShareFetch", asked, answered, **more)


def close(at: float, *, member: str = "A", **more: Any) -> Row:
    asked = {"groupId": "g", "memberId": member, "shareSessionEpoch": -1, "topics": []}
    return message(at, "ShareAcknowledge", asked, {"errorCode": 0, "responses": []}, **more)


def told(messages: list[Row], flows: list[Row] | None = None) -> list[tuple[object, ...]]:
    found = share_timeline(messages, flows or [])
    return [(row["cause"], row["partition"], row["first_offset"], row["state"]) for row in found]


def test_the_end_of_a_session_gives_back_what_it_holds_of_its_partitions_but_not_of_forgotten_ones() -> None:
    found = told(
        [
            fetch(1, 0, listed=[(0, []), (1, [])], given=[(0, 0, 4, 1), (1, 0, 4, 1)]),
            fetch(2, 1, forgotten=[1]),
            close(3),
        ]
    )

    assert found == [
        ("acquire", 0, 0, "Acquired"),
        ("session_close", 0, 0, "Available"),
        ("acquire", 1, 0, "Acquired"),
    ]


def test_a_session_that_is_opened_anew_gives_nothing_back() -> None:
    found = told([fetch(1, 0, listed=[(0, [])], given=[(0, 0, 4, 1)]), fetch(2, 0, listed=[(0, [])])])

    assert found == [("acquire", 0, 0, "Acquired")]


def test_a_close_that_is_refused_closes_nothing() -> None:
    refused = {**close(3), "body_response": json.dumps({"errorCode": 122, "responses": []})}

    assert told([fetch(1, 0, listed=[(0, [])], given=[(0, 0, 4, 1)]), refused]) == [("acquire", 0, 0, "Acquired")]


def test_the_end_of_the_connection_that_made_the_session_ends_it() -> None:
    made, goes_on = fetch(1, 0, listed=[(0, [])], given=[(0, 0, 4, 1)]), fetch(2, 1, conn="other", given=[(0, 5, 5, 1)])

    def flow(conn: str, ended: str) -> Row:
        return {"file": "f", "conn_id": conn, "stream_epoch": 0, "last_ts": 3 * S, "ended": ended}

    of_other = told([made, goes_on], [flow("other", "fin"), flow("c", "end")])
    of_maker = told([made, goes_on], [flow("c", "rst")])
    assert [cause for cause, *_ in of_other] == ["acquire", "acquire"]
    assert [cause for cause, *_ in of_maker] == ["acquire", "acquire", "session_close"]


def test_what_was_sent_behind_a_long_poll_is_taken_when_the_poll_has_its_answer() -> None:
    found = told([fetch(1, 0, listed=[(0, [])], given=[(0, 0, 4, 1)], took=5), close(2)])

    assert found == [("acquire", 0, 0, "Acquired"), ("session_close", 0, 0, "Available")]


def test_of_a_partition_that_is_listed_twice_the_last_word_counts() -> None:
    words = [(0, [(0, 4, [1])]), (0, [(0, 4, [2])])]
    found = told([fetch(1, 0, listed=[(0, [])], given=[(0, 0, 4, 1)]), fetch(2, 1, listed=words)])

    assert found[1:] == [("release", 0, 0, "Available")]


def test_an_error_of_the_whole_answer_refuses_every_acknowledgement_in_it() -> None:
    words = [(0, [(0, 4, [1])])]
    found = told([fetch(1, 0, listed=[(0, [])], given=[(0, 0, 4, 1)]), fetch(2, 1, listed=words, error=123)])

    assert len(found) == 1


def test_who_is_no_broker_tells_nothing_by_asking_for_the_state() -> None:
    place = {"topicId": TOPIC_ID, "partitions": [{"partition": 0, "leaderEpoch": 0}]}
    row = {"partition": 0, "errorCode": 0, "startOffset": 9, "stateBatches": []}
    results = [{"topicId": TOPIC_ID, "partitions": [row]}]
    read = message(2, "ReadShareGroupState", {"groupId": "g", "topics": [place]}, {"results": results})
    held = fetch(1, 0, listed=[(0, [])], given=[(0, 0, 4, 1)])

    assert told([held, read]) == [("acquire", 0, 0, "Acquired")]
    assert told([held, {**read, "client_id": "Persister-client-1"}])[1:] == [("load", 0, 9, "Available")]


def altered(value: str | None, *, error: int = 0, only_checked: bool = False) -> Row:
    config = {"name": "share.delivery.count.limit", "configOperation": 0 if value else 1, "value": value}
    asked = {
        "resources": [{"resourceType": GROUP, "resourceName": "g", "configs": [config]}],
        "validateOnly": only_checked,
    }
    answered = {"responses": [{"resourceType": GROUP, "resourceName": "g", "errorCode": error}]}
    return message(1, "IncrementalAlterConfigs", asked, answered)


def test_the_delivery_limit_is_told_by_configurations_that_were_set_or_described() -> None:
    configs = [{"name": "group.share.delivery.count.limit", "value": "7"}, {"name": "log.dirs", "value": "9"}]
    broker = {"resourceType": 4, "resourceName": "0", "configs": configs}
    described = message(1, "DescribeConfigs", {"resources": []}, {"results": [broker]})

    assert [fact.value for fact in facts(altered("3"))] == [3]
    assert [fact.value for fact in facts(altered(None))] == [None]
    assert [*facts(altered("3", error=40)), *facts(altered("3", only_checked=True))] == []
    assert [(fact.group_id, fact.value) for fact in facts(described)] == [(None, 7)]


def test_what_is_deleted_holds_for_the_share_partitions_of_its_group_and_topic_alone() -> None:
    offsets = {"responses": [{"topicId": TOPIC_ID, "topicName": "orders", "errorCode": 0}]}
    log = {"topics": [{"name": "orders", "partitions": [{"partitionIndex": 0, "errorCode": 0, "lowWatermark": 8}]}]}
    known = Context(
        [
            *facts(message(1, "DeleteShareGroupOffsets", {"groupId": "g", "topics": []}, offsets)),
            *facts(message(2, "DeleteGroups", {"groupsNames": ["h"]}, {"results": [{"groupId": "h", "errorCode": 0}]})),
            *facts(message(3, "DeleteRecords", {}, log)),
        ]
    )

    def events(group: str, topic_id: str, partition: int) -> list[tuple[str, int | None]]:
        return [(event.note or event.kind.name, event.start) for event in known.events(group, topic_id, partition)]

    assert known.names == {TOPIC_ID: "orders"}
    assert events("g", TOPIC_ID, 0) == [("delete_offsets", None), ("LOG_START", 8)]
    assert events("g", "another", 0) == []
    assert events("h", "another", 1) == [("delete_group", None)]


def test_topics_are_named_by_what_any_message_tells_and_by_the_user() -> None:
    held = fetch(1, 0, listed=[(0, [])], given=[(0, 0, 4, 1)])
    metadata = message(2, "Metadata", {}, {"topics": [{"name": "orders", "topicId": TOPIC_ID}]})

    assert [row["topic"] for row in share_timeline([held, metadata])] == ["orders"]
    assert [row["topic"] for row in share_timeline([held], topics={TOPIC_ID: "bills"})] == ["bills"]
    assert [row["topic"] for row in share_timeline([held])] == [None]


def leads(at: float, leader: int, epoch: int) -> Row:
    """A Metadata answer that names the leader of partition 0."""
    row = {"partitionIndex": 0, "leaderId": leader, "leaderEpoch": epoch}
    return message(
        at, "Metadata", {}, {"topics": [{"name": "t", "topicId": TOPIC_ID, "partitions": [row]}]}, conn="x>b"
    )


def causes(*rows: Row, **more: Any) -> list[tuple[object, ...]]:
    found = share_timeline(rows, **more)
    return [
        (row["cause"], row["first_offset"], row["state"], row["delivery_count"], row["is_inferred"]) for row in found
    ]


def test_what_an_old_leader_held_is_as_it_was_stored_once_the_new_one_is_asked() -> None:
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


def test_locks_of_an_old_leader_run_out_until_the_new_one_is_asked() -> None:
    found = causes(
        leads(0, 1, 4),
        fetch(1, 0, listed=[(0, ())], given=[(0, 0, 4, 1)], conn="a>b1"),
        leads(2, 2, 5),
        fetch(40, 0, listed=[(0, ())], conn="a>b2"),
    )

    assert [each[:2] for each in found] == [("acquire", 0), ("lock_timeout", 0), ("load", 0)]


def test_metadata_that_names_the_same_leader_again_tells_no_move() -> None:
    found = causes(
        leads(0, 1, 4), fetch(1, 0, listed=[(0, ())], given=[(0, 0, 4, 1)], conn="a>b1"), leads(2, 1, 4),
        fetch(3, 0, member="B", listed=[(0, ())], conn="c>b1"),
    )  # fmt: skip

    assert [each[0] for each in found] == ["acquire"]


def test_a_topic_that_is_deleted_ends_its_share_partitions() -> None:
    gone = message(2, "DeleteTopics", {}, {"responses": [{"errorCode": 0, "name": "t", "topicId": TOPIC_ID}]})
    found = causes(fetch(1, 0, listed=[(0, ())], given=[(0, 0, 4, 1)]), gone, close(3), leads(90, 1, 1))

    assert [each[0] for each in found] == ["acquire", "delete_topic"]


def test_the_first_drafts_number_acknowledgements_from_accept_on() -> None:
    words = [(0, 0, [0]), (1, 1, [1]), (2, 2, [2])]
    rows = (fetch(1, 0, listed=[(0, ())], given=[(0, 0, 4, 1)]), fetch(2, 1, listed=[(0, words)]))

    assert [each[0] for each in causes(*rows)][1:] == ["gap", "accept", "release"]
    assert [each[0] for each in causes(*rows, edition="kip932-r2")][1:] == ["accept", "release", "reject"]


def test_an_answer_that_tells_no_lock_has_the_one_that_is_said() -> None:
    row = fetch(1, 0, listed=[(0, ())], given=[(0, 0, 4, 1)])
    row["body_response"] = str(row["body_response"]).replace('"acquisitionLockTimeoutMs": 30000, ', "")

    assert [each[0] for each in causes(row, close(8, member="B"))] == ["acquire"]
    assert [each[0] for each in causes(row, close(8, member="B"), lock_duration_ms=5_000)] == [
        "acquire",
        "lock_timeout",
    ]
