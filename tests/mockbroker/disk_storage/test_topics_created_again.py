"""A topic that is deleted and created again under its name has nothing of what checkpoints say about the one before."""

from __future__ import annotations

import pytest

from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from mockbroker.log_directory.formats.log_summaries import LOG_SUMMARIES
from mockbroker.log_directory.simulated_files import SimulatedFiles
from tests.support.brokers.producer import produce, record_batch
from tests.support.disk_logs import make_files
from tests.support.stored.stored_broker import StoredBroker


def start(files: SimulatedFiles, replication: str) -> StoredBroker:
    return StoredBroker(files, config={"mockbroker.replication": replication})


def stop(broker: StoredBroker, *, is_killed: bool) -> SimulatedFiles:
    """The files that are left."""
    if is_killed:
        broker.advance(120_000)  # Checkpoints are written.
        return broker.files.kill_process()
    broker.end()
    return broker.files


def send(broker: StoredBroker, count: int) -> None:
    broker.call(produce(broker.topic("t"), record_batch(count)), 13)


def create(broker: StoredBroker) -> None:
    broker.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 7)
    broker.advance(10)


def create_again(broker: StoredBroker) -> None:
    broker.call(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000), 6)
    broker.advance(10)
    create(broker)


def offsets(broker: StoredBroker) -> tuple[int, int, int]:
    log = broker.leader_log("t")
    return log.start_offset, log.high_watermark, log.end_offset


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("has_deleted_records", [False, True])
@pytest.mark.parametrize("replication", ["immediate", "real"])
def test_a_topic_that_is_created_again_after_a_start_begins_at_offset_0(
    replication: str, *, has_deleted_records: bool, is_killed: bool
) -> None:
    files = make_files()
    broker = start(files, replication)
    create(broker)
    send(broker, 3)
    if has_deleted_records:
        partition = DeleteRecordsPartition(0, 2)
        broker.call(DeleteRecordsRequest([DeleteRecordsTopic("t", [partition])], 1000), 2)

    again = start(stop(broker, is_killed=is_killed), replication)
    create_again(again)

    assert offsets(again) == (0, 0, 0)
    send(again, 1)
    assert offsets(again) == (0, 1, 1)


@pytest.mark.parametrize("has_summaries", [False, True])
@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("replication", ["immediate", "real"])
def test_a_process_that_is_killed_after_a_topic_was_created_again_starts(
    replication: str, *, is_killed: bool, has_summaries: bool
) -> None:
    files = make_files()
    broker = start(files, replication)
    create(broker)
    send(broker, 3)
    broker.call(DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])], 1000), 2)
    left = stop(broker, is_killed=is_killed)
    if not has_summaries:
        left.remove(f"node-0/{LOG_SUMMARIES}")
    between = start(left, replication)
    create_again(between)

    again = start(between.files.kill_process(), replication)

    assert offsets(again) == (0, 0, 0)
