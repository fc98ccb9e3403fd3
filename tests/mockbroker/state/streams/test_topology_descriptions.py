"""When members of streams groups are asked for a description of their topology."""

from __future__ import annotations

import random

from mockbroker.state.streams.topology_descriptions import TopologyDescriptions


def ask(descriptions: TopologyDescriptions[str], now_ms: int, epoch: int = 0) -> bool:
    return descriptions.request("g", epoch, now_ms=now_ms, rng=random.Random(1))


def test_a_group_is_asked_again_after_a_delay_that_doubles() -> None:
    descriptions: TopologyDescriptions[str] = TopologyDescriptions()

    assert ask(descriptions, 0)
    assert not ask(descriptions, 23_999)
    assert ask(descriptions, 36_001)
    assert not ask(descriptions, 36_001 + 47_999)
    assert ask(descriptions, 36_001 + 72_001)


def test_another_epoch_and_a_removed_group_are_asked_at_once() -> None:
    descriptions: TopologyDescriptions[str] = TopologyDescriptions()
    ask(descriptions, 0)

    assert ask(descriptions, 1, epoch=1)
    assert not ask(descriptions, 2, epoch=1)
    descriptions.remove("g")
    assert ask(descriptions, 3, epoch=1)


def test_a_stored_description_is_found_until_the_group_is_removed() -> None:
    descriptions: TopologyDescriptions[str] = TopologyDescriptions()
    descriptions.store("g", "reads t")

    assert descriptions.find("g") == "reads t"
    descriptions.remove("g")
    assert descriptions.find("g") is None
