"""Throttling near the delivery limit: the worked tables of share-semantics 1.5."""

from __future__ import annotations

import pytest

from tests.support.brokers.share_partitions import RELEASE, Leader, settings, spans


def _released_after_each_delivery(leader: Leader, fetches: int) -> list[str]:
    result = []
    for _ in range(fetches):
        acquired = leader.fetch()
        result.append(" ".join(acquired))
        for run in acquired:
            first, last = (int(part) for part in run.partition("/")[0].split("-"))
            assert leader.acknowledge("m1", (first, last, [RELEASE])) == 0
    return result


LIMITS_1_5 = [
    ("0-9", 2, 10, "0-9/1 0-9/2 -"),
    ("0-3", 3, 4, "0-3/1 0-3/2 0-0/3 1-1/3 2-2/3 3-3/3 -"),
    ("0-9", 4, 2, "0-9/1 0-9/2 0-4/3 0-0/4 1-1/4"),
    ("0-9", 5, 5, "0-9/1 0-9/2 0-9/3 0-4/4 0-0/5 1-1/5 2-2/5 3-3/5 4-4/5"),
    ("0-499", 10, 1, "0-499/1 0-499/2 0-499/3 0-499/4 0-499/5 0-249/6 0-124/7 0-61/8 0-30/9 0-0/10"),
]


@pytest.mark.parametrize(("records", "limit", "start", "deliveries"), LIMITS_1_5)
def test_1_5_from_half_the_limit_on_batches_are_halved_and_the_last_attempt_is_alone(
    records: str, limit: int, start: int, deliveries: str
) -> None:
    leader = Leader(spans(records), config=settings(delivery_limit=limit))
    expected = [delivery.removeprefix("-") for delivery in deliveries.split()]

    assert _released_after_each_delivery(leader, len(expected)) == expected
    assert leader.start == start


def test_1_5_the_second_half_is_isolated_after_the_first() -> None:
    leader = Leader(spans("0-9"))
    _released_after_each_delivery(leader, 9)

    rest = _released_after_each_delivery(leader, 7)
    assert rest == ["5-9/4", "5-5/5", "6-6/5", "7-7/5", "8-8/5", "9-9/5", ""]
    assert leader.start == 10


def test_1_5_a_second_fetch_gets_the_throttled_rest() -> None:
    leader = Leader(spans("0-9"))
    _released_after_each_delivery(leader, 3)

    assert leader.fetch("m1") == ["0-4/4"]
    assert leader.fetch("m2") == ["5-9/4"]


def test_1_5_the_acquisition_stops_before_a_throttled_second_batch() -> None:
    leader = Leader(spans("0-4", "5-9"))
    leader.fetch(batch_size=5, max_records=10)
    for _ in range(2):
        leader.acknowledge("m1", (5, 9, [RELEASE]))
        assert leader.fetch()[0].startswith("5-9")
    leader.acknowledge("m1", (0, 4, [RELEASE]), (5, 9, [RELEASE]))

    assert leader.fetch() == ["0-4/2"]
    assert leader.fetch() == ["5-6/4"]
