"""What the simulator has found with a disk that fails (`python -m mockbroker.sim --disk`), each as the least case."""

from __future__ import annotations

import copy
import random
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from kwire.records import Record, write_batch
from mockbroker.kafka_error import KafkaError
from mockbroker.log_directory.formats import names
from mockbroker.log_directory.simulated_files import FileFault, SimulatedFiles
from mockbroker.state.metadata.topics import CoordinatorKind
from mockbroker.state.storage import log_cleaner
from mockbroker.state.storage.log_config import CleanerRules
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.segments import RollRules
from tests.support.brokers.producer import Producer, produce, record_batch
from tests.support.disk_logs import RULES, DiskLog
from tests.support.stored.stored_broker import StoredBroker

_ROLL = RollRules(size_max=900, age_max_ms=10_000_000, index_interval=100)
_SMALL = msgspec.structs.replace(RULES, roll=_ROLL, before_max_ms=1 << 60, after_max_ms=1 << 60)
_COMPACTS = CleanerRules(True, False, -1, -1, 0.0, 0, 1 << 60, 1 << 40, _ROLL)
_DELETES = CleanerRules(False, True, 10, -1, 0.0, 0, 1 << 60, 1 << 40, _ROLL)


class _Files(SimulatedFiles):
    """Files with one fault for the paths that contain a text."""

    def __init__(self, seed: int = 1) -> None:
        self.fault: FileFault | None = None
        self.where = ""
        self.what_failed: list[FileFault | None] = []
        super().__init__(
            random.Random(seed),
            choose_fault=lambda path: self.fault if self.where in path else None,
            on_fault=self.what_failed.append,
        )

    def begin(self, fault: FileFault, where: str) -> None:
        self.fault, self.where = fault, where

    def end(self) -> None:
        assert self.what_failed, "nothing has failed"
        self.fault = None


def _restart(files: SimulatedFiles, **given: Any) -> StoredBroker:
    return StoredBroker(files, fsync=True, **given)


def test_with_fsync_a_committed_transaction_has_its_markers_on_the_disk() -> None:
    files = _Files()
    broker = _restart(files, topics={"t": 1})
    producer = Producer(broker)
    producer.begin(), producer.add(0), producer.produce()
    files.begin(FileFault.SYNC_FAILS, "/t-0/")
    ended = producer.end()
    broker.advance(0)
    files.end()
    again = _restart(files.crash_machine())
    again.advance(10_000)

    assert ended == ErrorCode.NONE
    log = again.leader_log("t")
    assert (log.last_stable_offset, log.aborted_transactions(0, log.end_offset)) == (log.end_offset, [])
    assert log.end_offset >= 2


def test_with_fsync_an_ended_transaction_is_on_the_disk_when_it_is_acknowledged() -> None:
    files = _Files()
    producer = Producer(_restart(files, topics={"t": 1}))
    producer.begin(), producer.add(0), producer.produce()
    files.begin(FileFault.SYNC_FAILS, "/__transaction_state-")
    refused = producer.end()
    files.end()

    assert refused == ErrorCode.NOT_COORDINATOR
    assert producer.end() == ErrorCode.NONE


def test_a_marker_that_cannot_be_written_is_sent_again() -> None:
    files = _Files()
    broker = StoredBroker(files, topics={"t": 1})
    producer = Producer(broker)
    producer.begin(), producer.add(0), producer.produce()
    files.begin(FileFault.WRITE_FAILS, "/t-0/")
    ended = producer.end()
    files.end()
    before = producer.markers()
    broker.advance(1_000)

    assert (ended, before, producer.markers()) == (ErrorCode.NONE, [], [1])


def test_with_fsync_what_a_killed_process_has_not_synced_is_on_the_disk_after_the_next_start() -> None:
    files = _Files()
    broker = _restart(files, topics={"t": 1})
    broker.call(produce(broker.topic("t"), record_batch()), 13, settle=False)  # Written, and not synced yet.
    killed = files.kill_process()
    _restart(killed)

    assert _restart(killed.crash_machine()).leader_log("t").end_offset == 1


def test_a_coordinator_whose_log_is_damaged_when_it_is_read_loads_it_when_it_can() -> None:
    files = _Files()
    broker = StoredBroker(files, topics={"t": 1})
    producer = Producer(broker)
    producer.add(0), producer.commit_offset(7), producer.end()
    again = StoredBroker(files)
    files.begin(FileFault.BIT_FLIPS, "/__consumer_offsets-")
    again.advance(3_000)
    during = _fetch_offsets(again)
    files.end()
    again.advance(2_000)
    after = _fetch_offsets(again)

    assert during.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert after.topics[0].partitions[0].committed_offset == 7


def _fetch_offsets(broker: StoredBroker) -> OffsetFetchResponseGroup:
    node = broker.metadata.coordinator_id(CoordinatorKind.GROUP, "g")
    rows = [OffsetFetchRequestTopics("t", partition_indexes=(0,))]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=rows)])
    response: OffsetFetchResponse = broker.call(request, 8, connection="reader", node=node)
    return response.groups[0]


def _fill(disk: DiskLog, count: int = 40, value_size: int = 50, key_count: int = 3) -> None:
    disk.log.start_leader_epoch(0)
    for number in range(count):
        disk.log.append(
            write_batch([Record(0, 1_000 + number, b"k%d" % (number % key_count), b"%d" % number + b"v" * value_size)]),
            now_ms=1_000 + number,
        )


def _compact(log: PartitionLog) -> None:
    cleanable = log_cleaner.find_cleanable_range(log, _COMPACTS, now_ms=2_000)
    assert cleanable is not None
    log_cleaner.compact_log(log, cleanable, _COMPACTS, now_ms=2_000)


def _values(log: PartitionLog) -> list[bytes | None]:
    return [record.value for batch in log.batches_from(0) for record in batch.records()]


@pytest.mark.parametrize("ending", [".log", ".log.swap", ".index", ".index.swap", ".timeindex", ".timeindex.swap"])
def test_compacted_segments_are_used_before_their_files_can_be_renamed(ending: str) -> None:
    expected = DiskLog(_Files(), rules=lambda: _SMALL)
    _fill(expected)
    _compact(expected.log)
    files = _Files()
    disk = DiskLog(files, rules=lambda: _SMALL, nodes=(1, 2))
    _fill(disk)
    files.begin(FileFault.WRITE_FAILS, f"node-1/t-0/{names.file_name(0, ending)}")
    with suppress(KafkaError):  # Where the compacted files could not be written, the log is as before.
        _compact(disk.log)
    disk.logs.expire(now_ms=2_000)
    during = _values(disk.log)
    files.end()
    disk.logs.expire(now_ms=10_000)
    if _values(disk.log) != _values(expected.log):
        _compact(disk.log)
        disk.logs.expire(now_ms=20_000)

    assert set(_values(expected.log)) <= set(during)
    assert _values(disk.log) == _values(expected.log)
    assert not [name for name in files.list_names("node-1/t-0") if name.endswith((".swap", ".cleaned"))]
    assert _values(DiskLog(files.kill_process(), rules=lambda: _SMALL, nodes=(1, 2)).log) == _values(expected.log)


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_batch_is_not_compacted(seed: int) -> None:
    files = _Files(seed)
    disk = DiskLog(files, rules=lambda: _SMALL)
    _fill(disk)
    expected = DiskLog(_Files(), rules=lambda: _SMALL)
    _fill(expected)
    _compact(expected.log)
    before = _values(disk.log)
    files.begin(FileFault.BIT_FLIPS, names.file_name(0, ".log"))
    is_refused = False
    try:
        _compact(disk.log)
    except KafkaError:  # Not where the bit was one of an offset, which is in no checksum.
        is_refused = True
    files.end()

    after = _values(disk.log)
    assert after == before if is_refused else set(_values(expected.log)) <= set(after) <= set(before)
    if is_refused:
        _compact(disk.log)
        assert _values(disk.log) == _values(expected.log)


@pytest.mark.parametrize(
    ("value_size", "count"), [(50, 8), (1_048_503, 3)], ids=["in a window", "larger than a window"]
)
@pytest.mark.parametrize("misread_at", range(16))
def test_a_leader_epoch_that_was_misread_is_not_compacted(
    misread_at: int, value_size: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No checksum covers it, and a start would refuse what was written."""
    files, position, reads = _Files(), 15, iter(range(1_000))
    rules = msgspec.structs.replace(_SMALL, roll=RollRules(max(900, value_size + 100), 10_000_000, 100))
    disk = DiskLog(files, rules=lambda: rules)
    _fill(disk, count, value_size, key_count=count)
    before = _values(disk.log)

    def misread(data: bytes, _path: str) -> bytes:
        if next(reads) != misread_at:
            return data
        return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]

    with monkeypatch.context() as patch, suppress(KafkaError):  # Not where the wrong epoch is not used.
        patch.setattr(files, "flip_bits", misread)
        _compact(disk.log)
    disk.logs.expire(now_ms=2_000)

    assert {batch.leader_epoch for batch in disk.log.batches_from(0)} == {0}
    assert set(_values(disk.log)) <= set(before)
    assert _values(DiskLog(files.kill_process(), rules=lambda: rules).log) == _values(disk.log)


def test_offsets_go_on_after_a_crash_when_retention_has_deleted_all_records() -> None:
    files = _Files()
    disk = DiskLog(files, rules=lambda: _SMALL, fsync=True)
    _fill(disk)
    disk.logs.expire(now_ms=2_000)
    log_cleaner.delete_old_segments(disk.log, _DELETES, now_ms=100_000)
    again = DiskLog(files.crash_machine(), rules=lambda: _SMALL)

    assert disk.log.start_offset == 40
    assert (again.log.start_offset, again.log.end_offset) == (40, 40)


@pytest.mark.parametrize("ending", [".log", ".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("at", [0, 1])
def test_a_segment_whose_files_cannot_be_renamed_is_deleted_before_those_behind_it(ending: str, at: int) -> None:
    files = _Files()
    disk = DiskLog(files, rules=lambda: _SMALL, boot_id="boot")
    _fill(disk)
    disk.logs.expire(now_ms=2_000)
    failing = disk.log.segments[at].base_offset
    files.begin(FileFault.WRITE_FAILS, names.file_name(failing, ending))
    disk.log.storage.drop_first_segments(2)
    files.end()
    killed = DiskLog(copy.deepcopy(files), rules=lambda: _SMALL, boot_id="boot")
    disk.log.storage.drop_first_segments(1)
    base_offset = disk.log.segments[0].base_offset
    again = DiskLog(files.kill_process(), rules=lambda: _SMALL, boot_id="boot")

    assert (killed.log.start_offset, killed.log.end_offset) == (failing, 40)
    assert (again.log.start_offset, again.log.end_offset) == (base_offset, 40)


def test_a_replica_without_its_folder_gets_it_at_the_start_though_indexes_are_written_then() -> None:
    files = _Files()
    disk = DiskLog(files, rules=lambda: _SMALL, nodes=(1, 2))
    _fill(disk)
    files.remove_folder("node-2/t-0")
    for name in files.list_names("node-1/t-0"):
        if name.endswith(".index"):
            files.remove(f"node-1/t-0/{name}")
    again = DiskLog(files, rules=lambda: _SMALL, nodes=(1, 2))

    assert again.log.end_offset == 40
    assert files.list_names("node-2/t-0") == files.list_names("node-1/t-0")


def test_a_leader_that_moves_while_no_file_can_be_created_serves_when_one_can() -> None:
    files = _Files()
    broker = StoredBroker(files, nodes=2, topics={"t": 1}, config={"transaction.state.log.num.partitions": "3"})
    Producer(broker)
    files.begin(FileFault.WRITE_FAILS, "/__transaction_state-")
    broker.core.stop_node(0, broker.now_ms)
    files.fault = None  # No file was needed.
    broker.core.start_node(0, broker.now_ms)

    for number in range(6):
        producer = Producer(broker, f"tx{number}")
        assert producer.begin() == ErrorCode.NONE


@pytest.mark.parametrize("bit", range(64))
def test_a_batch_with_a_damaged_offset_does_not_hide_those_behind_it(bit: int) -> None:
    files = _Files()
    disk = DiskLog(files, rules=lambda: _SMALL)
    _fill(disk)
    first_batch = files.contents_of(f"node-1/t-0/{names.file_name(0, '.log')}")
    first_batch[bit // 8] ^= 1 << bit % 8

    with pytest.raises(KafkaError, match="no valid batch"):
        list(disk.log.batches_below(disk.log.end_offset))
