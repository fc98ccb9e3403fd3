"""Comparison of responses: what is mapped, what has no order, what is left out."""

from __future__ import annotations

from typing import Any

from mockbroker.replay.compare import compare_responses
from mockbroker.replay.value_map import Scope, ValueMap

OLD, NEW, OTHER = "o" * 22, "n" * 22, "p" * 22


def compare(captured: Any, new: Any, values: ValueMap | None = None, group: str | None = None) -> list[str]:
    found = compare_responses(captured, new, values or ValueMap(), Scope(group=group))
    return [str(difference) for difference in found]


def test_an_id_is_mapped_once() -> None:
    values = ValueMap()

    assert compare({"topicId": OLD}, {"topicId": NEW}, values) == []
    assert compare({"topicId": OLD}, {"topicId": NEW}, values) == []
    assert compare({"topicId": OLD}, {"topicId": OTHER}, values) == [f"/topicId: expected {NEW}, got {OTHER}"]
    assert values.translate({"topics": [{"topicId": OLD}]}) == {"topics": [{"topicId": NEW}]}


def test_a_missing_id_is_a_difference() -> None:
    assert compare({"memberId": "a"}, {"memberId": ""}) == ["/memberId: expected a, got "]
    assert compare({"producerId": -1}, {"producerId": 7}) == ["/producerId: expected -1, got 7"]


def test_generations_are_mapped_within_their_group() -> None:
    values = ValueMap()
    compare({"generationId": 1}, {"generationId": 5}, values, group="g")

    assert values.translate({"groupId": "g", "generationId": 1}) == {"groupId": "g", "generationId": 5}
    assert values.translate({"groupId": "h", "generationId": 1}) == {"groupId": "h", "generationId": 1}


def test_arrays_without_an_order_are_aligned_by_names_before_ids_are_learned() -> None:
    captured = {"topics": [{"name": "a", "topicId": OLD}, {"name": "b", "topicId": "q" * 22}]}
    new = {"topics": [{"name": "b", "topicId": OTHER}, {"name": "a", "topicId": NEW}]}
    values = ValueMap()

    assert compare(captured, new, values) == []
    assert values.translate({"topicId": OLD}) == {"topicId": NEW}


def test_records_have_an_order() -> None:
    captured, new = {"records": [{"key": "a"}, {"key": "b"}]}, {"records": [{"key": "b"}, {"key": "a"}]}

    assert compare(captured, new) == ["/records/0/key: expected a, got b", "/records/1/key: expected b, got a"]


def test_what_says_nothing_is_left_out() -> None:
    captured = {"throttleTimeMs": 0, "host": "a", "port": 1, "errorMessage": "no", "logAppendTimeMs": 5}
    new = {"throttleTimeMs": 9, "host": "b", "port": 2, "errorMessage": "not at all", "logAppendTimeMs": 8}

    assert compare(captured, new) == []
    assert compare({"errorMessage": "no"}, {"errorMessage": None}) == ["/errorMessage: expected <text>, got "]
    assert compare({"logAppendTimeMs": -1}, {"logAppendTimeMs": 8}) == [
        "/logAppendTimeMs: expected -1, got <time>",
    ]


def test_elements_that_one_side_lacks_are_named() -> None:
    captured, new = {"topics": [{"name": "a"}]}, {"topics": [{"name": "b"}, {"name": "a"}]}

    assert compare(captured, new) == ["/topics/1: expected (nothing), got {'name': 'b'}"]


def test_rows_that_one_side_lacks_are_one_difference_each() -> None:
    captured = [{"apiKey": key, "minVersion": 0, "maxVersion": key} for key in range(60)]
    new = [row for row in captured if row["apiKey"] not in (3, 7, 20, 59)]

    missing = compare({"apiKeys": captured}, {"apiKeys": new})
    added = compare({"apiKeys": new}, {"apiKeys": captured})

    assert [text.partition(":")[0] for text in missing] == ["/apiKeys/3", "/apiKeys/7", "/apiKeys/20", "/apiKeys/59"]
    assert all(text.endswith(", got (nothing)") for text in missing)
    assert len(added) == 4
    assert all(": expected (nothing), got {" in text for text in added)


def test_a_missing_row_and_a_changed_one_are_two_differences() -> None:
    captured = [{"partitionIndex": index, "errorCode": 0} for index in range(3)]
    new = [{"partitionIndex": 2, "errorCode": 6}, {"partitionIndex": 0, "errorCode": 0}]

    assert compare({"partitions": captured}, {"partitions": new}) == [
        "/partitions/1: expected {'partitionIndex': 1, 'errorCode': 0}, got (nothing)",
        "/partitions/2/errorCode: expected 0, got 6",
    ]


def test_a_row_that_comes_twice_is_one_difference() -> None:
    rows = [{"name": "a", "errorCode": 0}, {"name": "b", "errorCode": 0}, {"name": "c", "errorCode": 0}]

    found = compare({"topics": rows}, {"topics": [rows[0], rows[0], *rows[1:]]})

    assert len(found) == 1
    assert found[0].startswith("/topics/3: expected (nothing), got ")


def test_an_id_is_learned_beside_one_that_is_known() -> None:
    values = ValueMap()
    compare({"members": [{"memberId": "a"}]}, {"members": [{"memberId": "x"}]}, values)

    assert (
        compare(
            {"members": [{"memberId": "b"}, {"memberId": "a"}]},
            {"members": [{"memberId": "x"}, {"memberId": "y"}]},
            values,
        )
        == []
    )
    assert values.translate({"memberId": "b"}) == {"memberId": "y"}


def test_a_value_of_a_set_that_is_missing_is_one_difference() -> None:
    assert compare({"isrNodes": [1, 2, 3]}, {"isrNodes": [3, 1]}) == ["/isrNodes/1: expected 2, got (nothing)"]


def test_a_structure_that_one_side_lacks_is_one_difference() -> None:
    assert compare({"cursor": {"topicName": "a"}}, {"cursor": None}) == [
        "/cursor: expected {'topicName': 'a'}, got None"
    ]
    assert compare({"cursor": None}, {"cursor": {"topicName": "a"}}) == [
        "/cursor: expected None, got {'topicName': 'a'}"
    ]
