"""`TimelineMap`: the order of Kafka's map, and that of a dict."""

from __future__ import annotations

from mockbroker.state.java.hash_order import timeline_order
from mockbroker.state.java.timeline_map import TimelineMap
from mockbroker.state.metadata.topics import java_hash

NAMES = [f"member-{number}" for number in range(1, 8)]


def filled_map() -> TimelineMap[str, int]:
    members: TimelineMap[str, int] = TimelineMap(java_hash)
    for number, name in enumerate(NAMES):
        if number % 2:
            members[name] = number
        else:
            members.setdefault(name, number)
    return members


def test_the_members_of_kafka_s_test_of_descriptions_are_in_its_order() -> None:
    # Source: kafka.server.ConsumerGroupDescribeRequestTest of Kafka 4.3.0 (tests/foreign).
    members: TimelineMap[str, int] = TimelineMap(java_hash)
    members["member-1"] = 1
    members["member-2"] = 2

    assert list(members) == ["member-1", "member-2"]
    assert members.in_map_order() == {"member-2": 2, "member-1": 1}
    assert list(members.in_map_order()) == ["member-2", "member-1"]


def test_a_map_that_was_larger_keeps_its_order() -> None:
    members = filled_map()
    order = list(members.in_map_order())
    for name in NAMES[:5]:
        del members[name]

    assert order == timeline_order(NAMES, java_hash, most=7)
    assert list(members.in_map_order()) == [name for name in order if name in NAMES[5:]]


def test_a_default_does_not_replace_a_value() -> None:
    members = filled_map()

    assert members.setdefault("member-1", 99) == 0
