"""Producer ids: no two nodes give the same."""

from __future__ import annotations

from mockbroker.state.producer_ids import BLOCK_SIZE, ProducerIds


def test_no_two_nodes_give_the_same_id() -> None:
    given = [ids.fresh() for ids in (ProducerIds(0), ProducerIds(1), ProducerIds(7)) for _ in range(2 * BLOCK_SIZE)]

    assert len(set(given)) == len(given)
