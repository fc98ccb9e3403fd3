"""Random ids of one broker given to another one."""

from __future__ import annotations

from typing import Any

from kwire import uuids
from mockbroker.handlers.groups.member_ids import random_kafka_uuid, random_uuid
from tools.oracle.fuzz.drawn_ids import IdSource, read_ids, step_that_saves
from tools.oracle.fuzz.sequence_pairs import play_ours

_TOPIC_ID, _KAFKA_UUID = "q83vEjRWQniavN7wESIzRA", "EjRWeJq8RN6vAQIDBAUGBw"
_JAVA_UUID = "12345678-9abc-4def-8123-456789abcdef"


def test_given_ids_are_drawn_first_and_in_order() -> None:
    ids = IdSource(7)
    ids.given = read_ids({"m": f"client-a-{_JAVA_UUID}", "e": 3, "text": "no id", "k": _KAFKA_UUID})

    assert random_uuid(ids) == _JAVA_UUID
    assert random_kafka_uuid(ids) == _KAFKA_UUID
    assert random_uuid(ids) != _JAVA_UUID


def test_an_awaited_response_saves_for_the_request() -> None:
    steps: list[Any] = [{"conn": "b", "async": True}, {"sleep_ms": 1}, {"conn": "a"}, {"await": "b"}]

    assert [step_that_saves(steps, index) for index in range(4)] == [3, 1, 2, 3]


def test_topics_have_the_ids_of_the_other_broker() -> None:
    body = {"topics": [{"name": "t-${run}", "numPartitions": 1, "replicationFactor": 1}], "timeoutMs": 1000}
    step = {"conn": "a", "api": "CreateTopics", "version": 7, "body": body}
    script = {"name": "ids", "broker": "fuzz", "edition": "4.3", "variables": {"t": _TOPIC_ID}, "steps": [step]}

    answers = play_ours(script, {0: {"t": _TOPIC_ID}})

    assert uuids.from_text(_TOPIC_ID)[6] >> 4 == 4
    assert answers[0]["topics"][0]["topicId"] == "${t}"
