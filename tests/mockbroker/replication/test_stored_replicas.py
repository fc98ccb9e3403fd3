"""Replicas with logs of their own in a data directory: ends, kills, and directories with replicas that shared files."""

from __future__ import annotations

import random
from typing import Any

from kwire.error_codes import ErrorCode
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker.log_directory.simulated_files import SimulatedFiles
from mockbroker.replication.replicated_log_store import ReplicatedLogStore
from mockbroker.state.storage.partition_log import PartitionLog
from tests.support.stored.stored_broker import StoredBroker

REAL = {"mockbroker.replication": "real", "default.replication.factor": "3", "broker.session.timeout.ms": "600000"}
SHARED = {"default.replication.factor": "3"}
NOW_MS = 1_700_000_000_000
PATH = "t-0/00000000000000000000.log"


def start(files: SimulatedFiles, config: dict[str, str], *, now_ms: int = NOW_MS) -> StoredBroker:
    broker = StoredBroker(files, nodes=3, topics={"t": 1}, config=config, now_ms=now_ms)
    broker.advance(2_000)
    return broker


def make_files() -> SimulatedFiles:
    return SimulatedFiles(random.Random(1))


def log_of(broker: StoredBroker, node: int) -> PartitionLog:
    store = broker.core.state.log_store
    assert isinstance(store, ReplicatedLogStore)
    return store.node_logs(node).open_log(broker.topic("t"), 0)


def ends(broker: StoredBroker) -> list[tuple[int, int]]:
    logs = [log_of(broker, node) for node in range(3)]
    return [(log.end_offset, log.high_watermark) for log in logs]


def produce(broker: StoredBroker, count: int = 1, *, acks: int = -1) -> Any:
    node = broker.leader("t")
    batch = write_batch([Record(at, broker.now_ms, None, b"v") for at in range(count)])
    rows = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch)])]
    request = ProduceRequest(acks=acks, timeout_ms=90_000, topic_data=rows)
    answer = broker.call(request, 12, connection=f"p-{node}", node=node)
    return answer and answer.responses[0].partition_responses[0]


def is_shared(files: SimulatedFiles) -> list[bool]:
    return [files.is_same_file(f"node-0/{PATH}", f"node-{node}/{PATH}") for node in (1, 2)]


def test_each_replica_has_files_of_its_own_with_the_same_bytes() -> None:
    files = make_files()
    broker = start(files, REAL)

    row = produce(broker, 3)
    broker.advance(1_000)

    assert row.error_code == ErrorCode.NONE
    contents = [files.read_file(f"node-{node}/{PATH}") for node in range(3)]
    assert contents[0]
    assert contents[0] == contents[1] == contents[2]
    assert is_shared(files) == [False, False]


def test_a_follower_that_was_behind_at_the_end_goes_on_from_there() -> None:
    files = make_files()
    broker = start(files, REAL)
    produce(broker, 2)
    follower = next(node for node in range(3) if node != broker.leader("t"))
    broker.pause_node(follower)
    produce(broker, 3, acks=1)
    broker.advance(100)
    behind = log_of(broker, follower).end_offset
    broker.end()

    again = StoredBroker(files, nodes=3, config=REAL, now_ms=broker.now_ms + 1_000)
    opened = log_of(again, follower).end_offset
    again.advance(3_000)

    assert (behind, opened) == (2, 2)
    assert ends(again) == [(5, 5)] * 3


def test_a_killed_process_has_everything_that_was_acknowledged_and_followers_agree_again() -> None:
    files = make_files()
    broker = start(files, REAL)
    for _ in range(5):
        assert produce(broker, 2).error_code == ErrorCode.NONE
    leader = broker.leader("t")
    produce(broker, 4, acks=1)

    again = StoredBroker(files, nodes=3, config=REAL, now_ms=broker.now_ms + 1_000)
    again.advance(3_000)

    assert len({end for end, _ in ends(again)}) == 1
    assert ends(again)[leader][0] >= 10
    assert [high for _, high in ends(again)] == [end for end, _ in ends(again)]


def test_replicas_that_shared_their_files_get_copies() -> None:
    files = make_files()
    shared = start(files, SHARED)
    produce(shared, 3)
    before = is_shared(files)
    shared.end()

    broker = start(files, REAL, now_ms=shared.now_ms + 1_000)
    produce(broker, 2)
    broker.advance(1_000)

    assert before == [True, True]
    assert is_shared(files) == [False, False]
    assert ends(broker) == [(5, 5)] * 3


def test_replicas_share_the_leaders_files_again_even_if_another_log_is_longer() -> None:
    files = make_files()
    broker = start(files, {**REAL, "unclean.leader.election.enable": "true"})
    produce(broker, 2)
    broker.advance(1_000)
    first = broker.leader("t")
    other = next(node for node in range(3) if node != first)
    for node in range(3):
        if node != first:
            broker.stop_node(node)
    produce(broker, 7, acks=1)
    broker.stop_node(first)
    broker.start_node(other)
    broker.advance(600_000)
    assert broker.leader("t") == other
    produce(broker, 1, acks=1)
    assert (log_of(broker, first).end_offset, log_of(broker, other).end_offset) == (9, 3)
    broker.end()

    shared = start(files, SHARED, now_ms=broker.now_ms + 1_000)

    assert shared.leader("t") == other
    assert shared.leader_log("t").end_offset == 3
    assert is_shared(files) == [True, True]


def test_a_reassigned_replicas_folder_is_made_and_the_old_one_removed() -> None:
    files = make_files()
    broker = StoredBroker(files, nodes=3, config=REAL, now_ms=NOW_MS)
    broker.metadata.create_topic("t", assignments={0: (0, 1)})
    broker.advance(1_000)
    produce(broker, 3)
    partition = broker.topic("t").partitions[0]
    partition.replicas, partition.adding, partition.removing = (0, 1, 2), (2,), (1,)
    broker.metadata.mark_changed(broker.topic("t"))
    controller = broker.core.state.controller
    assert controller is not None
    controller.apply_leader_changes(now_ms=broker.now_ms)
    broker.advance(3_000)

    assert broker.topic("t").partitions[0].replicas == (0, 2)
    assert files.read_file(f"node-2/{PATH}") == files.read_file(f"node-0/{PATH}")
    assert "t-0" not in files.list_names("node-1")
