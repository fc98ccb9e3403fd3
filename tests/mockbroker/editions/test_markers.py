"""The third revision of KIP-932, "Reading transactional records", over sockets: the leader reads the markers itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker.config_keys import Scope
from mockbroker.editions.configs import dialect_of
from tests.mockbroker.editions.stage import Json, Stage, member_id

_GROUP, _SET = 32, 0
ACCEPTS = {"kip932-r3": 0, "kip932-r4": 1, "kip932-r5": 1}


class Producer:
    """A transactional producer of topic "t"."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage, self.client = stage, stage.client()
        self.name = name
        self.sequence = 0
        begun = self.client.send(InitProducerIdRequest(name, 60_000), 5)
        assert begun.error_code == 0
        self.holder = (begun.producer_id, begun.producer_epoch)
        [topic] = [each for each in self.client.send(MetadataRequest(topics=None)).topics if each.name == "t"]
        self.topic_id = topic.topic_id

    def write(self, count: int) -> None:
        """One batch."""
        (producer_id, epoch), now_ms = self.holder, self.stage.cluster.clock.now_ms()
        batch = write_batch(
            [Record(offset=index, timestamp=now_ms, key=None, value=b"value") for index in range(count)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        self.sequence += count
        data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
        asked = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=1_000, topic_data=data)
        asked.topic_data[0].topic_id = self.topic_id
        answer = self.client.send(asked, 12)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def end(self, *, commit: bool) -> None:
        """The marker; from version 5 on it has the next epoch."""
        answer = self.client.send(EndTxnRequest(self.name, *self.holder, committed=commit), 5)
        assert answer.error_code == 0
        self.holder, self.sequence = (answer.producer_id, answer.producer_epoch), 0


@pytest.fixture(params=list(ACCEPTS))
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A read-committed group that begins where the topic does, in each edition that follows markers."""
    with Stage(request.param) as running:
        settings = {"share.isolation.level": "read_committed", "share.auto.offset.reset": "earliest"}
        dialect = dialect_of(request.param)
        assert dialect is not None
        rows = [AlterableConfig(dialect.to_draft(Scope.GROUP, name), _SET, value) for name, value in settings.items()]
        asked = IncrementalAlterConfigsRequest([AlterConfigsResource(_GROUP, "G1", rows)])
        answer = running.client().send(asked, 1)
        assert answer.responses[0].error_code == 0, answer.responses[0].error_message
        running.join(1)
        yield running


class Session:
    """The share session of member 1."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.epoch = stage, 0

    def _ask(self, name: str, partition: Json, **fields: int) -> Json:
        tree = {
            "groupId": "G1",
            "memberId": member_id(1),
            "shareSessionEpoch": self.epoch,
            "topics": [{"topicId": self.stage.topic_id(), "partitions": [{"partitionIndex": 0} | partition]}],
        }
        self.epoch += 1
        return self.stage.ask(name, tree | fields)

    def fetch(self, max_bytes: int = 1_000_000) -> list[tuple[int, int, int]]:
        """First, last and delivery count of what was acquired."""
        limit = {"partitionMaxBytes": max_bytes}
        answer = self._ask("ShareFetch", limit, maxWaitMs=500, minBytes=1, maxBytes=max_bytes)
        rows = [row for topic in answer["responses"] for row in topic["partitions"]]
        assert not any(row["errorCode"] for row in rows), rows
        runs = [run for row in rows for run in row["acquiredRecords"]]
        return [(run["baseOffset"], run["lastOffset"], run["deliveryCount"]) for run in runs]

    def accept(self, first: int, last: int) -> None:
        """In the numbers of the edition."""
        kind = ACCEPTS[self.stage.edition]
        batch = {"baseOffset": first, "lastOffset": last, "acknowledgeTypes": [kind]}
        answer = self._ask("ShareAcknowledge", {"acknowledgementBatches": [batch]})
        assert answer["responses"][0]["partitions"][0]["errorCode"] == 0


def states(stage: Stage) -> str:
    """What is in flight, in the broker's own words: first offset, last offset, state."""
    view = stage.cluster.share_partition("G1", "t", 0)
    assert view is not None
    return ", ".join(f"{run.first_offset}-{run.last_offset} {run.state.name}" for run in view.in_flight)


def test_records_are_uncommitted_in_the_window_until_their_marker_is_read(stage: Stage) -> None:
    session, ours, theirs = Session(stage), Producer(stage, "ours"), Producer(stage, "theirs")
    ours.write(3)
    theirs.write(2)
    theirs.end(commit=False)
    ours.end(commit=True)

    assert session.fetch(max_bytes=1) == []
    assert states(stage) == "0-2 UNCOMMITTED"
    assert session.fetch() == []
    assert states(stage).startswith("0-2 AVAILABLE")
    assert session.fetch() == [(0, 2, 1)]
    session.accept(0, 2)
    assert states(stage) == ""


def test_an_open_transaction_holds_everything_behind_it(stage: Stage) -> None:
    session, ours = Session(stage), Producer(stage, "ours")
    stage.produce(1)
    ours.write(1)
    stage.produce(1)

    assert session.fetch() == [(0, 0, 1)]
    ours.end(commit=True)
    given = session.fetch()
    while len(given) < 2:
        given += session.fetch()
    assert given == [(1, 1, 1), (2, 2, 1)]
