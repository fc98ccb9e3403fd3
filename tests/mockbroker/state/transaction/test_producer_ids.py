"""Producer ids: no two nodes give the same, and a cluster begins with 0."""

from __future__ import annotations

from mockbroker.state.transaction.producer_ids import BLOCK_SIZE, ProducerIdBlocks, ProducerIds


def test_no_two_nodes_use_the_same_id() -> None:
    blocks = ProducerIdBlocks()
    nodes = [ProducerIds(blocks.next_block) for _ in range(3)]
    given = [ids.next_id() for ids in nodes for _ in range(2 * BLOCK_SIZE)]

    assert len(set(given)) == len(given)


def test_the_first_node_that_needs_an_id_begins_with_zero() -> None:
    """As the first InitProducerId of a new 4.3.0 cluster."""
    blocks = ProducerIdBlocks()
    first, second = ProducerIds(blocks.next_block), ProducerIds(blocks.next_block)

    assert [second.next_id(), second.next_id(), first.next_id()] == [0, 1, BLOCK_SIZE]


def test_the_next_block_is_requested_before_the_present_one_ends() -> None:
    """Source: the prefetch threshold of Kafka's RPCProducerIdManager."""
    blocks = ProducerIdBlocks()
    first, second = ProducerIds(blocks.next_block), ProducerIds(blocks.next_block)
    for _ in range(BLOCK_SIZE - BLOCK_SIZE // 20):
        first.next_id()

    assert second.next_id() == 2 * BLOCK_SIZE
