"""Opening partitions: of a real broker, and those that a kill, a crash of the machine or a damage leaves behind."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kwire.records import Record, write_batch
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.disk_storage.data_directory import DataDirectory, DirectoryOptions
from mockbroker.kafka_error import KafkaError
from mockbroker.log_directory.formats import checkpoints, names, properties
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.simulated_files import FileFault, SimulatedFiles
from mockbroker.state.metadata.configs import Configs
from mockbroker.state.storage.log_config import FlushRules
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.segments import RollRules
from tests.support.disk_logs import RULES, DiskLog, make_files
from tests.support.log_directory import unpack_kafka_directory

_ROLL = RollRules(size_max=900, age_max_ms=10_000_000, index_interval=100)
_SMALL = msgspec.structs.replace(RULES, roll=_ROLL, before_max_ms=1 << 60, after_max_ms=1 << 60)
_SETTINGS = ("log.index.interval.bytes=100",)
_LOG = "node-1/t-0/00000000000000000000.log"


def _open(files: SimulatedFiles, boot_id: str | None = None, *, repair: bool = False) -> DiskLog:
    return DiskLog(files, rules=lambda: _SMALL, settings=_SETTINGS, boot_id=boot_id, repair=repair)


def _append(log: PartitionLog, value: bytes, now_ms: int = 1_000, **given: Any) -> int:
    return log.append(write_batch([Record(0, now_ms, b"k", value)], **given), now_ms=now_ms).first_offset


def _values(log: PartitionLog) -> list[bytes | None]:
    return [record.value for batch in log.batches_from(0) for record in batch.records()]


def test_every_partition_of_a_real_directory_opens_as_it_was(tmp_path: Path) -> None:
    unpacked = unpack_kafka_directory(tmp_path)
    root = tmp_path / "all"
    root.mkdir()
    unpacked.rename(root / "node-0")
    ends = checkpoints.read_offsets((root / "node-0" / checkpoints.RECOVERY_POINTS).read_bytes(), "file")
    lines: list[str] = []
    directory = DataDirectory.open(root, (0,), DirectoryOptions(report=lines.append))
    logs = directory.open_logs(Configs(BrokerConfig()))
    opened: dict[tuple[str, int], PartitionLog] = {}
    for (topic, index), end_offset in ends.items():
        if topic == "__cluster_metadata":
            continue
        metadata = root / "node-0" / names.folder_name(topic, index) / properties.PARTITION_METADATA
        topic_id = properties.read_partition_metadata(metadata.read_bytes(), "file")
        files, state = logs.open_log(topic, topic_id, index, (0,), leader_epoch=0, now_ms=0)
        log = opened[topic, index] = PartitionLog(lambda: RULES, storage=files)
        log.restore_state(state)
        files.bind(log)
        assert (log.end_offset, state.leader_epochs) == (end_offset, [(0, 0)])
    records = {key: _values(log) for key, log in opened.items()}
    logs.close()
    directory.close(clean=True)

    assert lines == []
    assert {len(records[f"codec-{codec}", 0]) for codec in ("none", "gzip", "snappy", "lz4", "zstd")} == {30}
    transactional = opened["txn", 0]
    assert transactional.last_stable_offset == 66
    assert [(one.first_offset, one.last_offset) for one in transactional.aborted_transactions(0, 67)] == [
        (11, 21),
        (44, 54),
    ]
    assert opened["compacted", 0].segments.cleaned_to == 90


def test_a_clean_shutdown_writes_the_files_of_kafka() -> None:
    files = make_files()
    disk = _open(files)
    disk.log.start_leader_epoch(0)
    for number in range(12):
        _append(disk.log, b"v" * 90, producer_id=5, producer_epoch=0, base_sequence=number)
    disk.shut_down()

    found = files.list_names("node-1/t-0")
    bases = [names.file_name(segment.base_offset, "") for segment in disk.log.segments]
    assert len(bases) == 3
    expected = [base + suffix for base in bases for suffix in (".log", ".index", ".timeindex")]
    expected += [f"{base}.snapshot" for base in [*bases[1:], names.file_name(12, "")]]
    assert found == sorted([*expected, checkpoints.LEADER_EPOCHS, properties.PARTITION_METADATA])
    assert files.read_file("node-1/recovery-point-offset-checkpoint") == b"0\n1\nt 0 12\n"
    assert files.read_file("node-1/replication-offset-checkpoint") == b"0\n1\nt 0 12\n"


@pytest.mark.parametrize("boot_id", [None, "same"])
def test_a_killed_process_loses_nothing_and_the_torn_end_is_cut_with_one_line(boot_id: str | None) -> None:
    files = make_files()
    disk = _open(files, "same")
    for number in range(20):
        _append(disk.log, b"%d" % number * 40)
    last = disk.log.segments[-1].base_offset
    path = f"node-1/t-0/{names.file_name(last, names.LOG)}"
    torn = write_batch([Record(20, 1_000, b"k", b"torn")], base_offset=20)[:-3]
    files.open_file(path).append(torn)
    again = _open(files, boot_id)

    assert _values(again.log) == [b"%d" % number * 40 for number in range(20)]
    assert [line for line in again.lines if f"cut {len(torn)} bytes" in line] == again.lines[-1:]
    assert _append(again.log, b"next") == 20


def test_a_damaged_middle_is_refused_with_file_and_byte_unless_it_may_be_cut() -> None:
    files = make_files()
    disk = _open(files)
    for number in range(12):
        _append(disk.log, b"%d" % number * 60)
    files.contents_of(_LOG)[100] ^= 1
    with pytest.raises(DamagedFileError, match=rf"{_LOG}, byte 0: .*--repair"):
        _open(files)
    repaired = _open(files, repair=True)

    assert _values(repaired.log) == []
    assert any("removed, it is behind a cut" in line for line in repaired.lines)
    assert _append(repaired.log, b"again") == 0


@pytest.mark.parametrize("suffix", [names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX])
@pytest.mark.parametrize("how", ["missing", "empty", "cut", "wrong", "zeroed"])
def test_a_broken_index_is_built_again(suffix: str, how: str) -> None:
    files = make_files()
    disk = _open(files)
    for number in range(12):
        _append(disk.log, b"v" * 90, transactional=True, producer_id=5, producer_epoch=0, base_sequence=number)
        if number in (2, 9):
            disk.log.append_marker(commit=False, producer_id=5, producer_epoch=0, coordinator_epoch=0, now_ms=1_000)
    aborted = disk.log.producers.all_aborted()
    disk.shut_down()
    path = f"node-1/t-0/{names.file_name(0, suffix)}"
    before = files.read_file(path)
    assert before
    if how == "missing":
        files.remove(path)
    else:
        damaged = {"empty": b"", "cut": before[:-1], "wrong": b"\x7f" * len(before), "zeroed": bytes(len(before))}
        files.write_file(path, damaged[how])
    again = _open(files)
    reads = [bytes(again.log.read(offset, 1 << 20).join()) for offset in range(14)]

    assert again.log.producers.all_aborted() == aborted
    assert reads == [bytes(disk.log.read(offset, 1 << 20).join()) for offset in range(14)]
    assert len([line for line in again.lines if "built again" in line]) == 1
    if suffix == names.TRANSACTION_INDEX or how != "wrong":
        again.shut_down()
        assert files.read_file(path) == before


class _CrashModel:
    """Appends to a log whose disk fails; checks what is left after kills and crashes of the machine.

    acknowledged: the values of all appends that succeeded, in order. durable_count: how many of them were
    on the disk for certain.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.fault_rate = 0.0
        self.files = SimulatedFiles(random.Random(seed + 1), choose_fault=self._choose_fault)
        self.boots, self.crashed = 0, False
        self.fsync = seed % 2 == 0
        self.acknowledged: list[bytes] = []
        self.durable_count = 0
        self._open()

    def _choose_fault(self, path: str) -> FileFault | None:
        if self.rng.random() >= self.fault_rate:
            return None
        return self.rng.choice((FileFault.WRITE_FAILS, FileFault.SHORT_WRITE, FileFault.SYNC_FAILS))

    def _open(self) -> None:
        rate, self.fault_rate = self.fault_rate, 0.0
        flush = self.rng.choice((None, FlushRules(3, 1 << 62)))
        rules = msgspec.structs.replace(_SMALL, flush=flush)
        for repair in (False, True):
            with suppress(DamagedFileError):
                self.disk = DiskLog(
                    self.files,
                    rules=lambda: rules,
                    settings=_SETTINGS,
                    boot_id=f"boot{self.boots}",
                    fsync=self.fsync,
                    repair=repair,
                )
                break
            # A closed segment that was never synced is incomplete, and a later one is not.
            assert self.crashed
        self.disk.log.start_leader_epoch(self.disk.log.leader_epoch + 1)
        self.fault_rate = rate

    def run(self, steps: int) -> None:
        for number in range(steps):
            self.fault_rate = self.rng.choice((0.0, 0.0, 0.3))
            step = self.rng.random()
            if step < 0.8:
                self._append(number)
            elif step < 0.9:
                self._sync()
            else:
                self._end_process()

    def _append(self, number: int) -> None:
        value = b"%d:" % number + bytes(self.rng.randrange(200))
        with suppress(KafkaError):
            _append(self.disk.log, value, 1_000 + number)
            self.acknowledged.append(value)

    def _sync(self) -> None:
        with suppress(OSError):
            self.disk.partition.sync()
            self.durable_count = len(self.acknowledged)
        self.disk.logs.expire(now_ms=self.rng.randrange(1 << 40))

    def _end_process(self) -> None:
        self.fault_rate = 0.0
        how = self.rng.choice(("kill", "crash", "clean"))
        if how == "clean":
            self.disk.shut_down()
            self.durable_count = len(self.acknowledged)
        self.crashed = how == "crash"
        if self.crashed:
            self.files = self.files.crash_machine()
            self.boots += 1
        self._open()
        values = _values(self.disk.log)
        assert values == self.acknowledged[: len(values)]
        assert len(values) >= (self.durable_count if how == "crash" else len(self.acknowledged))
        self.acknowledged = self.acknowledged[: len(values)]
        self.durable_count = min(self.durable_count, len(values)) if how != "crash" else len(values)


@pytest.mark.parametrize("seed", range(100))
def test_what_was_acknowledged_is_there_after_every_end_of_the_process(seed: int) -> None:
    _CrashModel(seed).run(120)
