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
