"""Producers whose batches and markers are lost with a leader."""

from __future__ import annotations

from typing import Any

from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from tests.nodes.coordinator_scenarios import find_coordinator
from tests.nodes.replica_requests import alter_topic_config, append_batch, fetch_records, summarize_produce
from tests.nodes.scenario_client import ScenarioClient

_TOPIC = "numbered"


def produce_one(
    client: ScenarioClient, node: int, producer: tuple[int, int], number: int, *, acks: int = -1, tx: str | None = None
) -> list[int]:
    """Append one record of an idempotent producer, or of a transaction; code and offset."""
    record = Record(0, client.cluster.time_ms(), None, b"n" if tx is None else b"t")
    identity: dict[str, Any] = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": number}
    data = write_batch([record], **identity, transactional=tx is not None)
    rows = [TopicProduceData(name=_TOPIC, partition_data=[PartitionProduceData(0, data)])]
    request = ProduceRequest(transactional_id=tx, acks=acks, timeout_ms=10_000, topic_data=rows)
    return summarize_produce(client.send(node, request, 12 if tx is None else 11))


def describe_producers(client: ScenarioClient, node: int) -> Any:
    """DescribeProducers: last sequence and start of the open transaction of each, in order of their ids."""
    answer = client.send(node, DescribeProducersRequest([TopicRequest(_TOPIC, (0,))])).topics[0].partitions[0]
    rows = sorted(answer.active_producers, key=lambda row: row.producer_id)
    return [[row.last_sequence, row.current_txn_start_offset] for row in rows]


def describe_producers_anywhere(client: ScenarioClient, node: int, partition: int = 0) -> Any:
    """DescribeProducers by a node that may have no replica: the code, and the last sequences."""
    answer = client.send(node, DescribeProducersRequest([TopicRequest(_TOPIC, (partition,))])).topics[0].partitions[0]
    return [answer.error_code, [row.last_sequence for row in answer.active_producers]]


def list_end_for_debugging(client: ScenarioClient, node: int) -> Any:
    """ListOffsets with the replica id -2, which followers answer too: code and end offset."""
    topic = ListOffsetsTopic(_TOPIC, [ListOffsetsPartition(0, timestamp=-1)])
    row = client.send(node, ListOffsetsRequest(-2, topics=[topic]), 7).topics[0].partitions[0]
    return [row.error_code, row.offset]


def producers_at_followers(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """Every broker with a replica describes the producers, also of a partition without a leader."""
    client.create_topic(_TOPIC, [(1, 2)])
    producer = init_producer_id(client, None, 0)
    observed["written"] = [produce_one(client, 1, producer, sequence) for sequence in range(2)]
    client.wait_until(lambda: describe_producers_anywhere(client, 2), lambda row: row == [0, [1]])
    observed["described"] = [describe_producers_anywhere(client, node) for node in range(3)]
    observed["no partition"] = describe_producers_anywhere(client, 2, 1)
    observed["end"] = [list_end_for_debugging(client, node) for node in range(3)]


def init_producer_id(client: ScenarioClient, transactional_id: str | None, node: int) -> tuple[int, int]:
    """A producer id and epoch."""
    request = InitProducerIdRequest(transactional_id, 60_000)
    answer = client.wait_until(lambda: client.send(node, request, 4), lambda answer: answer.error_code == 0)
    return answer.producer_id, answer.producer_epoch


def producers_lose_what_they_wrote(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The next leader lacks batches of an idempotent producer, and the marker of a transaction.

    Their records are of today: a broker that starts forgets producers who have written nothing for a day.
    """
    client.create_topic(_TOPIC, [(1, 2)])
    alter_topic_config(client, _TOPIC, {"unclean.leader.election.enable": "true"})
    producer = init_producer_id(client, None, 0)
    observed["written"] = [produce_one(client, 1, producer, sequence) for sequence in range(2)]
    home = find_coordinator(client, 0, 1, "tx")
    writer = init_producer_id(client, "tx", home)
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=writer[0],
        v3_and_below_producer_epoch=writer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(_TOPIC, (0,))],
    )
    answer = client.wait_until(
        lambda: client.send(home, add, 3),
        lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code != 51,
    )
    observed["added"] = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    observed["in the transaction"] = produce_one(client, 1, writer, 0, tx="tx")
    client.pass_time(1)
    client.cluster.stop(2)
    client.wait_for_partition(0, _TOPIC, isr=[1])
    if home == 2:
        home = find_coordinator(client, 0, 1, "tx")
    end = EndTxnRequest("tx", *writer, True)
    observed["ended"] = client.wait_until(
        lambda: client.send(home, end, 3).error_code, lambda code: code not in (14, 15, 16)
    )
    observed["committed"] = client.wait_until(lambda: fetch_records(client, 1, _TOPIC), lambda row: row[2] == 4)
    observed["marker"] = fetch_records(client, 1, _TOPIC, 3)
    observed["alone"] = [produce_one(client, 1, producer, sequence, acks=1) for sequence in (2, 3)]
    observed["known before"] = describe_producers(client, 1)
    client.cluster.kill(1)
    client.wait_for_partition(0, _TOPIC, leader=-1)
    client.cluster.start(2)
    client.wait_for_partition(2, _TOPIC, leader=2)
    observed["read"] = client.wait_until(lambda: fetch_records(client, 2, _TOPIC), lambda row: row[0] == 0)
    observed["known after"] = describe_producers(client, 2)
    observed["the next"] = produce_one(client, 2, producer, 4)
    observed["the first that is lost"] = produce_one(client, 2, producer, 2)
    observed["one that is left"] = produce_one(client, 2, producer, 1)
    observed["of nobody"] = append_batch(client, 2, _TOPIC, b"x", 1, acks=-1)
    observed["read again"] = fetch_records(client, 2, _TOPIC)
    client.cluster.start(1)
    client.wait_for_partition(2, _TOPIC, isr=[1, 2])


SCENARIOS = (producers_lose_what_they_wrote, producers_at_followers)
