"""Folders of partitions: created after the metadata record of their topic, and set aside under names of their own."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from mockbroker.kafka_error import KafkaError
from mockbroker.log_directory.formats.names import parse_folder_name
from mockbroker.log_directory.simulated_files import FileFault, ProcessEnded, SimulatedFiles
from tests.support.disk_logs import DiskLog, make_files
from tests.support.stored.stored_broker import StoredBroker

_SMALL = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
_METADATA = "__cluster_metadata"


class _EndingFiles(SimulatedFiles):
    """The process ends at a change of this number, counted while `is_counting`; None: never."""

    def __init__(self, end_at: int | None = None) -> None:
        self.end_at, self.count, self.is_counting = end_at, 0, False
        super().__init__(random.Random(1), choose_fault=self._choose)

    def _choose(self, _: str) -> FileFault | None:
        if not self.is_counting:
            return None
        self.count += 1
        return FileFault.PROCESS_ENDS if self.count == self.end_at else None


def _start(files: SimulatedFiles, replication: str) -> StoredBroker:
    return StoredBroker(files, nodes=3, config={**_SMALL, "mockbroker.replication": replication})


def _create_internal_topics(broker: StoredBroker) -> None:
    for key_type in (0, 1, 2):
        key = "g" if key_type < 2 else "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
        broker.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,)), 6)
    broker.call(CreateTopicsRequest([CreatableTopic("t", 2, 3), CreatableTopic("u", 1, 2)]), 7)
    broker.advance(1_000)


def _stray_folders(files: SimulatedFiles) -> list[str]:
    return [name for node in range(3) for name in files.list_names(f"node-{node}") if name.endswith("-stray")]


@pytest.mark.parametrize("replication", ["immediate", "real"])
def test_a_process_that_ends_while_topics_are_created_leaves_no_stray_folder(replication: str) -> None:
    whole = _EndingFiles()
    broker = _start(whole, replication)
    whole.is_counting = True
    _create_internal_topics(broker)

    for end_at in range(1, whole.count, 7):
        files = _EndingFiles(end_at)
        broker = _start(files, replication)
        files.is_counting = True
        with suppress(ProcessEnded):
            _create_internal_topics(broker)
        left = files.kill_process()
        left._choose_fault = lambda _: None
        again = _start(left, replication)
        assert _stray_folders(left) == [], f"the process ended at change {end_at}"
        _create_internal_topics(again)


def test_folders_that_no_topic_has_are_set_aside_under_names_of_their_own() -> None:
    files = make_files()
    for _ in range(3):
        disk = DiskLog(files)
        disk.logs.remove_unknown(set())

    found = [name for name in files.list_names("node-1") if name.startswith("t-0")]
    assert found == [f"t-0.{number:032x}-stray" for number in range(3)]
    assert [parse_folder_name(name) for name in found] == [None] * 3


def test_a_folder_of_another_topic_with_the_same_name_is_set_aside_each_time() -> None:
    files = make_files()
    DiskLog(files)
    for number in range(2):
        metadata = bytearray(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAA" + b"QgwA"[number : number + 1])
        files.write_file("node-1/t-0/partition.metadata", metadata)
        disk = DiskLog(files)
        assert any("of another topic" in line for line in disk.lines)

    assert sum(name.endswith("-stray") for name in files.list_names("node-1")) == 2


def test_a_deleted_folder_does_not_take_the_name_of_one_that_waits_for_its_removal() -> None:
    files = make_files()
    for _ in range(2):
        DiskLog(files).partition.remove()

    assert (
        sum(name.endswith("-delete") for name in files.list_names("node-1")) == 1
    )  # The first was removed at a start.
    disk = DiskLog(files)
    files.create_folder(f"node-1/t-0.{disk.partition.identity.topic_id.hex()}-delete")
    disk.partition.remove()
    assert disk.lines == []
    assert sum(name.endswith("-delete") for name in files.list_names("node-1")) == 2


def test_files_that_cannot_be_created_are_created_later_and_the_partition_is_led_then() -> None:
    files = make_files()
    broker = _start(files, "real")
    full, files._choose_fault = (
        files._choose_fault,
        lambda path: FileFault.WRITE_FAILS if _METADATA not in path else None,
    )
    with suppress(KafkaError):
        broker.call(CreateTopicsRequest([CreatableTopic("t", 1, 3)]), 7)
    broker.advance(100)
    files._choose_fault = full
    broker.advance(2_000)

    assert "t-0" in files.list_names("node-0")
    leader = broker.core.state.nodes[broker.leader("t")].replication
    assert leader is not None
    assert leader.find_led((broker.topic("t").topic_id, 0)) is not None
