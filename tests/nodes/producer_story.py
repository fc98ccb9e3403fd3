"""Producers whose batches and markers are lost with a leader."""

from __future__ import annotations

from typing import Any

from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from tests.nodes.coordinator_story import coordinator_of
from tests.nodes.replica_kit import append, configure, fetched, produced
from tests.nodes.teller import Teller

_TOPIC = "numbered"


def numbered(teller: Teller, node: int, producer: tuple[int, int], sequence: int, *, acks: int = -1) -> list[int]:
    """Append one record of an idempotent producer; code and offset."""
    data = write_batch(
        [Record(0, teller.venue.time_ms(), None, b"n")],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
    )
    rows = [TopicProduceData(name=_TOPIC, partition_data=[PartitionProduceData(0, data)])]
    return produced(teller.ask(node, ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=rows), 12))


def transactional(teller: Teller, node: int, producer: tuple[int, int], sequence: int) -> list[int]:
    """Append one record of a transaction; code and offset."""
    data = write_batch(
        [Record(0, teller.venue.time_ms(), None, b"t")],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=True,
    )
    rows = [TopicProduceData(name=_TOPIC, partition_data=[PartitionProduceData(0, data)])]
    request = ProduceRequest(transactional_id="tx", acks=-1, timeout_ms=10_000, topic_data=rows)
    return produced(teller.ask(node, request, 11))


def known(teller: Teller, node: int) -> Any:
    """DescribeProducers: last sequence and start of the open transaction of each, in order of their ids."""
    answer = teller.ask(node, DescribeProducersRequest([TopicRequest(_TOPIC, (0,))])).topics[0].partitions[0]
    rows = sorted(answer.active_producers, key=lambda row: row.producer_id)
    return [[row.last_sequence, row.current_txn_start_offset] for row in rows]


def begin(teller: Teller, transactional_id: str | None, node: int) -> tuple[int, int]:
    """A producer id and epoch."""
    request = InitProducerIdRequest(transactional_id, 60_000)
    answer = teller.until(lambda: teller.ask(node, request, 4), lambda answer: answer.error_code == 0)
    return answer.producer_id, answer.producer_epoch


def producers_lose_what_they_wrote(teller: Teller, seen: dict[str, Any]) -> None:
    """The next leader lacks batches of an idempotent producer, and the marker of a transaction.

    Their records are of today: a broker that starts forgets producers who have written nothing for a day.
    """
    teller.create(_TOPIC, [(1, 2)])
    configure(teller, _TOPIC, {"unclean.leader.election.enable": "true"})
    producer = begin(teller, None, 0)
    seen["written"] = [numbered(teller, 1, producer, sequence) for sequence in range(2)]
    home = coordinator_of(teller, 0, 1, "tx")
    writer = begin(teller, "tx", home)
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=writer[0],
        v3_and_below_producer_epoch=writer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(_TOPIC, (0,))],
    )
    answer = teller.until(
        lambda: teller.ask(home, add, 3),
        lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code != 51,
    )
    seen["added"] = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    seen["in the transaction"] = transactional(teller, 1, writer, 0)
    teller.let_pass(1)
    teller.venue.stop(2)
    teller.until(lambda: teller.partition(0, _TOPIC), lambda row: row["isr"] == [1])
    if home == 2:
        home = coordinator_of(teller, 0, 1, "tx")
    end = EndTxnRequest("tx", *writer, True)
    seen["ended"] = teller.until(lambda: teller.ask(home, end, 3).error_code, lambda code: code not in (14, 15, 16))
    seen["committed"] = teller.until(lambda: fetched(teller, 1, _TOPIC), lambda row: row[2] == 4)
    seen["marker"] = fetched(teller, 1, _TOPIC, 3)
    seen["alone"] = [numbered(teller, 1, producer, sequence, acks=1) for sequence in (2, 3)]
    seen["known before"] = known(teller, 1)
    teller.venue.kill(1)
    teller.until(lambda: teller.partition(0, _TOPIC), lambda row: row["leader"] == -1)
    teller.venue.start(2)
    teller.until(lambda: teller.partition(2, _TOPIC), lambda row: row["leader"] == 2)
    seen["read"] = teller.until(lambda: fetched(teller, 2, _TOPIC), lambda row: row[0] == 0)
    seen["known after"] = known(teller, 2)
    seen["the next"] = numbered(teller, 2, producer, 4)
    seen["the first that is lost"] = numbered(teller, 2, producer, 2)
    seen["one that is left"] = numbered(teller, 2, producer, 1)
    seen["of nobody"] = append(teller, 2, _TOPIC, b"x", 1, acks=-1)
    seen["read again"] = fetched(teller, 2, _TOPIC)
    teller.venue.start(1)
    teller.until(lambda: teller.partition(2, _TOPIC), lambda row: row["isr"] == [1, 2])


STORIES = (producers_lose_what_they_wrote,)
