"""Producer ids and the transactional ids that hold them."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.producer_ids import BLOCK_SIZE, ProducerIds


def begin(ids: ProducerIds, expected: tuple[int, int] | None = None) -> tuple[int, int]:
    return ids.begin("tx", timeout_ms=1, expected=expected)


def test_no_two_nodes_give_the_same_id() -> None:
    given = [ids.fresh() for ids in (ProducerIds(0), ProducerIds(1), ProducerIds(7)) for _ in range(2 * BLOCK_SIZE)]

    assert len(set(given)) == len(given)


def test_each_takeover_of_a_transactional_id_has_the_next_epoch() -> None:
    ids = ProducerIds(0)
    producer_id, epoch = begin(ids)

    assert epoch == 0
    assert begin(ids) == (producer_id, 1)
    assert ids.begin("other", timeout_ms=1, expected=None)[0] != producer_id


def test_a_producer_that_recovers_says_who_it_is_and_may_repeat_itself() -> None:
    ids = ProducerIds(0)
    producer_id, _ = begin(ids)

    assert begin(ids, (producer_id, 0)) == (producer_id, 1)
    assert begin(ids, (producer_id, 0)) == (producer_id, 1)


@pytest.mark.parametrize("expected", [(0, 5), (12345, 0)])
def test_who_is_not_the_owner_is_fenced(expected: tuple[int, int]) -> None:
    ids = ProducerIds(0)
    begin(ids)

    with pytest.raises(KafkaError) as caught:
        begin(ids, expected)
    assert caught.value.code is ErrorCode.PRODUCER_FENCED


def test_after_the_last_epoch_comes_another_producer_id() -> None:
    ids = ProducerIds(0)
    first = begin(ids)
    held = ids.transactional("tx")
    assert held is not None
    held.epoch = 32_766

    second = begin(ids, (first[0], 32_766))
    assert (second[0] != first[0], second[1]) == (True, 0)
    assert begin(ids, (first[0], 32_766)) == second
