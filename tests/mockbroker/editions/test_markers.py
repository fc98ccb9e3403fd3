"""The third revision of KIP-932, "Reading transactional records", over sockets: the leader reads the markers itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire import uuids
from kwire.messages import incremental_alter_configs as alter
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker.config.keys import Scope
from mockbroker.editions.configs import config_dialect
from tests.support.brokers.edition_cluster import EditionCluster

_GROUP, _SET = 32, 0
ACCEPTS = {"kip932-r3": 0, "kip932-r4": 1, "kip932-r5": 1}


class Producer:
    """A transactional producer of topic "t"."""

    def __init__(self, stage: EditionCluster, name: str) -> None:
        self.stage, self.client = stage, stage.client()
        self.name = name
        self.sequence = 0
        begun = self.client.send(InitProducerIdRequest(name, 60_000), 5)
        assert begun.error_code == 0
        self.holder = (begun.producer_id, begun.producer_epoch)

    def write(self, count: int) -> None:
        """One batch."""
        (producer_id, epoch), now_ms = self.holder, self.stage.cluster.clock.now_ms()
        records = [Record(offset=index, timestamp=now_ms, key=None, value=b"value") for index in range(count)]
        identity = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": self.sequence}
        partition = PartitionProduceData(0, write_batch(records, **identity, transactional=True))
        self.sequence += count
        data = [TopicProduceData("t", uuids.from_text(self.stage.topic_id()), [partition])]
        asked = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=1_000, topic_data=data)
        answer = self.client.send(asked, 12)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def end(self, *, commit: bool) -> None:
        """The marker; from version 5 on it has the next epoch."""
        answer = self.client.send(EndTxnRequest(self.name, *self.holder, committed=commit), 5)
        assert answer.error_code == 0
        self.holder, self.sequence = (answer.producer_id, answer.producer_epoch), 0


@pytest.fixture(params=list(ACCEPTS))
def stage(request: pytest.FixtureRequest) -> Iterator[EditionCluster]:
    """A read-committed group from the start of a topic, in each edition that reads markers."""
    with EditionCluster(request.param) as running:
        settings = {"share.isolation.level": "read_committed", "share.auto.offset.reset": "earliest"}
        dialect = config_dialect(request.param)
        assert dialect is not None
        given = {dialect.to_draft(Scope.GROUP, name): value for name, value in settings.items()}
        rows = [alter.AlterableConfig(name, _SET, value) for name, value in given.items()]
        asked = alter.IncrementalAlterConfigsRequest([alter.AlterConfigsResource(_GROUP, "G1", rows)])
        answer = running.client().send(asked, 1)
        assert answer.responses[0].error_code == 0, answer.responses[0].error_message
        running.join(1)
        yield running


def states(stage: EditionCluster) -> str:
    """The records in flight: first offset, last offset, state."""
    view = stage.cluster.share_partition("G1", "t", 0)
    assert view is not None
    return ", ".join(f"{run.first_offset}-{run.last_offset} {run.state.name}" for run in view.in_flight)


def test_records_are_uncommitted_in_the_window_until_their_marker_is_read(stage: EditionCluster) -> None:
    ours, theirs = Producer(stage, "ours"), Producer(stage, "theirs")
    ours.write(3)
    theirs.write(2)
    theirs.end(commit=False)
    ours.end(commit=True)

    assert stage.fetch(1, max_bytes=1) == []
    assert states(stage) == "0-2 UNCOMMITTED"
    assert stage.fetch(1) == []
    assert states(stage).startswith("0-2 AVAILABLE")
    assert stage.fetch(1) == [(0, 2, 1)]
    assert stage.acknowledge(1, 0, 2, ACCEPTS[stage.edition]) == 0
    assert states(stage) == ""


def test_an_open_transaction_holds_everything_behind_it(stage: EditionCluster) -> None:
    ours = Producer(stage, "ours")
    stage.produce(1)
    ours.write(1)
    stage.produce(1)

    assert stage.fetch(1) == [(0, 0, 1)]
    ours.end(commit=True)
    given = stage.fetch(1)
    while len(given) < 2:
        given += stage.fetch(1)
    assert given == [(1, 1, 1), (2, 2, 1)]
