"""A cluster whose logs are in files: faults of the disk, group commit, and where its files are."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mockbroker import build
from mockbroker.disk_storage.data_directory import DataDirectory, DirectoryOptions
from mockbroker.log_directory.simulated_files import FileFault, SimulatedFiles
from mockbroker.state.storage.log_store import LogStore
from tests.support.brokers.broker import Broker
from tests.support.brokers.producer import Producer, produce, record_batch
from tests.support.disk_logs import make_files

OK = ErrorCode.NONE
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class DiskBroker(Broker):
    """A broker with its logs in `files`. lines: what was reported."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, files: SimulatedFiles, *, fsync: bool = False, **given: Any
    ) -> None:
        self.files = files
        self.lines: list[str] = []
        options = DirectoryOptions(fsync=fsync, report=self.lines.append)
        directory = DataDirectory(files, range(given.get("nodes", 1)), options)

        def create_store(*arguments: Any, **given: Any) -> LogStore:
            return LogStore(*arguments, **{**given, "directory": directory})

        monkeypatch.setattr(build, "LogStore", create_store)
        super().__init__(**given)

    def produce(self, *, acks: int = -1, size: int = 10, settle: bool = True, connection: str = "a") -> int | None:
        """The error code of a produced batch, None while it waits."""
        request = produce(self.topic("t"), record_batch(size=size, now_ms=self.now_ms), acks=acks)
        response = self.call(request, 13, settle=settle, connection=connection)
        return None if response is None else response.responses[0].partition_responses[0].error_code

    def fetch(self) -> bytes:
        """The records of partition 0 of t."""
        topic_id = self.topic("t").topic_id
        row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        response = self.call(
            FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[row])]), 13
        )
        assert response.responses[0].partitions[0].error_code == OK
        return bytes(response.responses[0].partitions[0].records or b"")


class _Faults:
    """Chooses a fault for files whose paths contain `where`."""

    def __init__(self) -> None:
        self.fault: FileFault | None = None
        self.where = ".log"

    def choose(self, path: str) -> FileFault | None:
        return self.fault if self.where in path else None


def test_a_failed_write_is_refused_and_the_log_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = _Faults()
    broker = DiskBroker(monkeypatch, make_files(choose_fault=faults.choose), topics={"t": 1})
    before = [broker.produce() for _ in range(3)]
    faults.fault = FileFault.SHORT_WRITE
    during = [broker.produce() for _ in range(3)]
    faults.fault = None
    after = [broker.produce() for _ in range(2)]

    assert (before, during, after) == ([OK] * 3, [STORAGE_ERROR] * 3, [OK] * 2)
    assert broker.leader_log("t").end_offset == 5
    assert broker.fetch() == bytes(broker.leader_log("t").read(0, 1 << 20).join())
    assert len([line for line in broker.lines if "refused with KAFKA_STORAGE_ERROR" in line]) == 1


def test_a_full_disk_refuses_records_until_it_has_space(monkeypatch: pytest.MonkeyPatch) -> None:
    files = make_files(capacity=3_000)
    broker = DiskBroker(monkeypatch, files, topics={"t": 1})
    codes = [broker.produce(size=500) for _ in range(8)]
    files.capacity = None
    later = [broker.produce(size=500) for _ in range(3)]

    assert {OK, STORAGE_ERROR} == set(codes)
    assert codes == [OK] * codes.count(OK) + [STORAGE_ERROR] * codes.count(STORAGE_ERROR)
    assert later == [OK] * 3
    assert broker.leader_log("t").end_offset == codes.count(OK) + 3


@pytest.mark.parametrize("acks", [1, -1])
def test_with_fsync_an_acknowledgement_waits_for_the_disk_and_one_sync_serves_many(
    monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    files = make_files()
    broker = DiskBroker(monkeypatch, files, fsync=True, topics={"t": 1})
    waiting = [broker.produce(acks=acks, settle=False, connection=name) for name in "abc"]
    unsynced = broker.leader_log("t").high_watermark
    lost = len(files.crash_machine().read_file("node-0/t-0/00000000000000000000.log") or b"")
    broker.advance(0)
    answers = [broker.take_response(name).responses[0].partition_responses[0].error_code for name in "abc"]

    assert (waiting, unsynced, lost) == ([None] * 3, 0, 0)
    assert answers == [OK] * 3
    assert broker.leader_log("t").high_watermark == 3
    assert len(files.crash_machine().read_file("node-0/t-0/00000000000000000000.log") or b"") > 0


@pytest.mark.parametrize("acks", [1, -1])
def test_a_failed_fsync_refuses_what_waits_for_it_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    faults = _Faults()
    files = make_files(choose_fault=faults.choose)
    broker = DiskBroker(monkeypatch, files, fsync=True, topics={"t": 1})
    before = broker.produce(acks=acks)
    faults.fault = FileFault.SYNC_FAILS
    during = broker.produce(acks=acks)
    held = broker.leader_log("t").high_watermark
    faults.fault = None
    broker.advance(1_000)

    assert (before, during, held) == (OK, STORAGE_ERROR, 1)
    path = "node-0/t-0/00000000000000000000.log"
    assert files.crash_machine().read_file(path) == files.read_file(path)
    assert broker.leader_log("t").high_watermark == 2
    assert broker.produce(acks=acks) == OK


def test_the_replicas_of_a_partition_have_the_same_files_and_deleted_topics_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = make_files()
    broker = DiskBroker(monkeypatch, files, nodes=3, topics={"t": 2}, config={"default.replication.factor": "2"})
    broker.produce()
    log = "00000000000000000000.log"
    replicas = broker.topic("t").partitions[0].replicas
    others = {0, 1, 2} - set(replicas)

    first, second = (f"node-{node}/t-0/{log}" for node in replicas)
    assert files.is_same_file(first, second)
    assert not [node for node in others if "t-0" in files.list_names(f"node-{node}")]
    broker.metadata.delete_topic(broker.topic("t"))
    assert not [name for node in range(3) for name in files.list_names(f"node-{node}") if name == "t-0"]
    broker.advance(60_000)
    assert not [name for node in range(3) for name in files.list_names(f"node-{node}") if name.startswith("t-")]


def test_a_coordinator_that_cannot_write_refuses_and_goes_on_with_what_is_in_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = _Faults()
    broker = DiskBroker(monkeypatch, make_files(choose_fault=faults.choose), topics={"t": 2})

    def heartbeat(member_id: str, epoch: int) -> tuple[int, int]:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=("t",),
            topic_partitions=[],
        )
        response = broker.call(request, 1)
        return response.error_code, response.member_epoch

    heartbeat("m1", 0)
    broker.advance(1_000)
    joined = heartbeat("m1", 0)
    faults.fault = FileFault.WRITE_FAILS
    refused = [heartbeat("m2", 0)[0], heartbeat("m1", -1)[0]]
    for _ in range(20):
        broker.advance(20_000)  # The session of m1 ends, and that cannot be written either.
    faults.fault = None
    broker.advance(1_000)
    again = heartbeat("m1", joined[1])

    assert joined[0] == OK
    assert refused == [ErrorCode.NOT_COORDINATOR] * 2
    assert again[0] == OK


def test_a_transaction_whose_end_cannot_be_written_ends_when_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = _Faults()
    broker = DiskBroker(monkeypatch, make_files(choose_fault=faults.choose), topics={"t": 3})
    producer = Producer(broker)
    producer.begin(), producer.add(0), producer.produce()
    faults.fault = FileFault.WRITE_FAILS
    refused = producer.end()
    faults.fault = None
    ended = producer.end()
    broker.advance(100)

    assert (refused, ended) == (ErrorCode.NOT_COORDINATOR, OK)
    assert producer.markers(0) == [1]
    assert producer.log(0).last_stable_offset == 2
