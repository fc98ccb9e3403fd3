"""Differences of responses: rows are matched by their keys, and values have kinds."""

from __future__ import annotations

from typing import Any

from tools.oracle.fuzz.accepted_differences import AcceptedDifference, without_accepted
from tools.oracle.fuzz.comparison import (
    UNANSWERED,
    DifferenceClass,
    LeafDifference,
    compare_answers,
    leaf_differences,
)

_FETCH = {"conn": "a", "api": "Fetch", "version": 12, "body": {}}


def _leaves(kafka: Any, ours: Any) -> list[LeafDifference]:
    return list(leaf_differences(kafka, ours))


def test_equal_trees_have_no_difference() -> None:
    assert _leaves({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}) == []


def test_partitions_with_the_offsets_of_groups_may_differ_those_of_other_topics_may_not() -> None:
    def states(offsets_partition: int, partition: int) -> dict[str, Any]:
        topics = [
            {"topic": "__consumer_offsets", "partitions": [offsets_partition]},
            {"topic": "t", "partitions": [partition]},
        ]
        return {"transactionStates": [{"transactionalId": "x", "topics": topics}]}

    step = {"conn": "a", "api": "DescribeTransactions", "version": 0, "body": {}}

    assert compare_answers([step], {0: states(1, 0)}, {0: states(2, 0)}) == []
    assert compare_answers([step], {0: states(1, 0)}, {0: states(2, 1)}) != []


def test_a_boolean_is_not_a_number() -> None:
    assert _leaves({"a": True}, {"a": 1}) == [LeafDifference("/a", True, 1)]


def test_rows_are_matched_by_name_in_any_order() -> None:
    kafka = [{"name": "a", "errorCode": 0}, {"name": "b", "errorCode": 3}]
    ours = [{"name": "b", "errorCode": 0}, {"name": "a", "errorCode": 0}]

    assert _leaves(kafka, ours) == [LeafDifference("/*/errorCode", 3, 0)]


def test_a_row_without_counterpart_is_missing() -> None:
    row = {"name": "a", "errorCode": 3}

    assert _leaves([row, row], [row]) == [LeafDifference("/*", row, "(missing)")]


def test_rows_without_keys_are_matched_by_position() -> None:
    assert _leaves([{"isr": 1}], [{"isr": 2}]) == [LeafDifference("/*/isr", 1, 2)]


def test_a_class_has_error_codes_and_kinds_of_other_values() -> None:
    kafka, ours = {"errorCode": 3, "offset": 17, "text": None}, {"errorCode": 0, "offset": 18, "text": "a"}

    [step] = compare_answers([_FETCH], {0: kafka}, {0: ours})

    assert (step.step, step.api, step.version) == (0, "Fetch", 12)
    assert step.classes == (
        DifferenceClass("Fetch", "/errorCode", "3", "0"),
        DifferenceClass("Fetch", "/offset", "number", "number"),
        DifferenceClass("Fetch", "/text", "null", "text"),
    )


def test_the_answer_to_an_asynchronous_request_is_of_its_api() -> None:
    steps: list[Any] = [{"conn": "b", "api": "JoinGroup", "version": 9, "async": True}, _FETCH, {"await": "b"}]

    [step] = compare_answers(steps, {2: {"errorCode": 27}}, {2: {"errorCode": 0}})

    assert (step.api, step.version) == ("JoinGroup", 9)


def test_steps_after_one_without_an_answer_are_not_compared() -> None:
    steps = [_FETCH, _FETCH, _FETCH]

    differences = compare_answers(steps, {0: {"x": 1}, 1: UNANSWERED}, {0: {"x": 1}, 1: {"x": 2}, 2: {"x": 3}})

    assert [difference.step for difference in differences] == [1]


def test_accepted_values_are_left_out() -> None:
    rule = AcceptedDifference("Fetch", "/text", "texts")
    differences = compare_answers([_FETCH], {0: {"text": "a", "x": 1}}, {0: {"text": "b", "x": 2}})

    [step] = without_accepted(differences, [rule])

    assert step.leaves == (LeafDifference("/x", 1, 2),)
    assert without_accepted(compare_answers([_FETCH], {0: {"text": "a"}}, {0: {"text": "b"}}), [rule]) == []


def test_a_response_that_one_broker_does_not_send_is_one_difference() -> None:
    [step] = compare_answers([_FETCH], {0: UNANSWERED}, {0: {"errorCode": 0}})

    assert step.leaves == (LeafDifference("/unanswered", True, False),)
    assert compare_answers([_FETCH], {0: UNANSWERED}, {0: UNANSWERED}) == []


def test_accepted_rows_have_the_error_code_of_their_rule() -> None:
    rule = AcceptedDifference("Fetch", r"/rows/\*", "rows that come and go", error_code=-1)
    failed, other = {"name": "a", "errorCode": -1}, {"name": "b", "errorCode": 3}
    topic = {"topicId": "t", "partitions": [{"partitionIndex": 0, "errorCode": -1}]}

    assert without_accepted(compare_answers([_FETCH], {0: {"rows": [failed, topic]}}, {0: {"rows": []}}), [rule]) == []
    [step] = without_accepted(compare_answers([_FETCH], {0: {"rows": [failed]}}, {0: {"rows": [other]}}), [rule])
    assert step.leaves == (LeafDifference("/rows/*", "(missing)", other),)
