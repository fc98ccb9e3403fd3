"""Leader epochs and sequences of producers."""

from __future__ import annotations

import pytest

from kwire.conformance.produced_batches import produced_batches, remove_records
from kwire.error_codes import ErrorCode
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.kwire.conformance.test_retry_rules import produce, produced
from tests.support.observed_traffic import ObservedTraffic

TOPIC_ID = bytes(range(16))


def metadata(epoch: int, topic_id: bytes = TOPIC_ID) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_epoch=epoch)
    return MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[partition])])


def fetch(epoch: int, topic: str | bytes = "t", replica_id: int = -1) -> FetchRequest:
    name, topic_id = (topic, bytes(16)) if isinstance(topic, str) else ("", topic)
    partition = FetchPartition(partition=0, current_leader_epoch=epoch)
    return FetchRequest(
        replica_id=replica_id, topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=[partition])]
    )


@pytest.mark.parametrize("topic", ["t", TOPIC_ID])
def test_a_fetch_has_the_newest_leader_epoch_that_the_client_has_seen(topic: str | bytes) -> None:
    traffic = ObservedTraffic()
    traffic.send(0, MetadataRequest(), metadata(4))
    traffic.send(10, fetch(4, topic), FetchResponse())
    traffic.send(20, MetadataRequest(), metadata(5))
    traffic.send(2000, fetch(4, topic), FetchResponse())
    traffic.send(2010, fetch(5, topic), FetchResponse())

    assert traffic.broken() == [("stale-leader-epoch", (3, 4))]


def test_older_epochs_that_are_no_mistake() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, MetadataRequest(), metadata(5))
    traffic.send(500, fetch(4), FetchResponse())
    traffic.send(2000, fetch(4), FetchResponse(), connection="c2")
    traffic.send(2010, fetch(-1), FetchResponse())
    traffic.send(2020, fetch(4, replica_id=3), FetchResponse())
    traffic.send(2030, MetadataRequest(), metadata(0, bytes(15) + b"n"))
    traffic.send(5000, fetch(0), FetchResponse())

    assert traffic.broken() == []


def test_a_batch_continues_the_sequence() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, produce(b"a", 0, records=2), produced())
    traffic.send(10, produce(b"b", 2), produced())
    traffic.send(20, produce(b"d", 5), produced(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))

    assert traffic.broken() == [("produce-sequence-gap", (2, 3))]
    assert traffic.notes()[0].text == "produced sequence 5 of producer 1 to t-0, expected was sequence 3"


def test_batches_are_known_after_their_records_were_removed() -> None:
    traffic = ObservedTraffic()
    for at_ms, sequence, error in ((0, 0, 0), (10, 4, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)):
        request = produce(b"a", sequence)
        batches = tuple(produced_batches(request))
        remove_records(request)
        traffic.send(at_ms, request, produced(error), batches=batches)

    assert traffic.broken() == [("produce-sequence-gap", (1, 2))]


def test_retries_and_batches_that_the_broker_accepted_are_no_gap() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, produce(b"a", 0, records=2), produced(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    traffic.send(1, produce(b"b", 2), produced(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
    traffic.send(10, produce(b"a", 0, records=2), produced())
    traffic.send(20, produce(b"b", 2), produced())
    traffic.send(30, produce(b"d", 5), produced())

    assert traffic.broken() == []


def test_sequences_wrap() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, produce(b"a", 2**31 - 1), produced())
    traffic.send(10, produce(b"b", 0), produced())
    traffic.send(20, produce(b"c", 2), produced(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))

    assert traffic.broken() == [("produce-sequence-gap", (2, 3))]
