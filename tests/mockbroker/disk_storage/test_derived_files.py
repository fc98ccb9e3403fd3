"""Indexes, snapshots and epochs are derived from the log: a start finds wrong ones, and builds them again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from kwire.records import Record, write_batch
from mockbroker.log_directory.formats import checkpoints, names
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.formats.log_summaries import LOG_SUMMARIES
from mockbroker.log_directory.simulated_files import FileFault, ProcessEnded, SimulatedFiles
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.segments import RollRules
from tests.support.disk_logs import RULES, DiskLog, make_files

_ROLL = RollRules(size_max=900, age_max_ms=10_000_000, index_interval=100)
_SMALL = msgspec.structs.replace(RULES, roll=_ROLL, before_max_ms=1 << 60, after_max_ms=1 << 60)
_FOLDER = "node-1/t-0"
_BOOT = "boot"


def _open(files: SimulatedFiles, boot_id: str | None = _BOOT) -> DiskLog:
    return DiskLog(files, rules=lambda: _SMALL, settings=("log.index.interval.bytes=100",), boot_id=boot_id)


def _fill(log: PartitionLog) -> None:
    """Transactions over several segments, of which each third one is aborted."""
    for number in range(30):
        states = {one.producer_id: one.last_sequence for one in log.producers.all_states()}
        given: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0, "base_sequence": states.get(5, -1) + 1}
        record = Record(0, 1_000 + log.end_offset, b"k", b"%d" % number * 20)
        log.append(write_batch([record], transactional=True, **given), now_ms=1_000)
        if number % 2:
            is_committed = number % 3 != 0
            log.append_marker(commit=is_committed, producer_id=5, producer_epoch=0, coordinator_epoch=0, now_ms=1_000)


def _make(*, is_clean: bool) -> tuple[SimulatedFiles, DiskLog]:
    files = make_files()
    disk = _open(files)
    disk.log.start_leader_epoch(0)
    _fill(disk.log)
    disk.logs.expire(now_ms=10_000)
    _fill(disk.log)
    if is_clean:
        disk.shut_down()
    return files, disk


def _describe(log: PartitionLog) -> list[object]:
    """What readers and producers get of a log."""
    return [
        log.producers.all_aborted(),
        {one.producer_id: (one.last_sequence, one.transaction_start) for one in log.producers.all_states()},
        [bytes(log.read(offset, 1 << 20).join()) for offset in range(log.end_offset)],
        [log.offset_for_timestamp(1_000 + offset) for offset in range(0, log.end_offset, 3)],
        (log.start_offset, log.end_offset, log.high_watermark, log.last_stable_offset, log.leader_epoch),
    ]


_DAMAGES: dict[str, Callable[[SimulatedFiles, str], None]] = {
    "missing": lambda files, path: files.remove(path),
    "empty": lambda files, path: files.write_file(path, b""),
    "zeroed": lambda files, path: files.write_file(path, bytes(len(files.contents_of(path)))),
    "half": lambda files, path: files.write_file(path, bytes(files.contents_of(path))[: _half(files, path)]),
    "ones": lambda files, path: files.write_file(path, b"\xff" * len(files.contents_of(path))),
    "text": lambda files, path: files.write_file(path, b"no such format\n" * 9),
}
_DERIVED = (*names.INDEXES, names.SNAPSHOT, checkpoints.LEADER_EPOCHS)


def _half(files: SimulatedFiles, path: str) -> int:
    """Half of the file, in whole entries of each index."""
    entry = {names.OFFSET_INDEX: 8, names.TIME_INDEX: 12, names.TRANSACTION_INDEX: 34}
    size = next((size for suffix, size in entry.items() if path.endswith(suffix)), 1)
    return len(files.contents_of(path)) // 2 // size * size


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("how", _DAMAGES)
@pytest.mark.parametrize("suffix", _DERIVED)
def test_a_derived_file_that_is_wrong_changes_nothing_that_is_read(suffix: str, how: str, is_clean: bool) -> None:
    files, disk = _make(is_clean=is_clean)
    expected = _describe(disk.log)
    paths = [f"{_FOLDER}/{name}" for name in files.list_names(_FOLDER) if name.endswith(suffix)]
    assert paths
    for path in paths:
        copy = _copy(files)
        _DAMAGES[how](copy, path)
        again = _open(copy)
        assert _describe(again.log) == expected, path
        again.shut_down()
        last = _open(copy)
        assert _describe(last.log) == expected, path
        assert last.lines == []


def _copy(files: SimulatedFiles) -> SimulatedFiles:
    copy = make_files()
    for folder in ("node-1", _FOLDER):
        copy.create_folder(folder)
        for name in files.list_names(folder):
            data = files.read_file(f"{folder}/{name}")
            if data is not None:
                copy.write_file(f"{folder}/{name}", data)
    return copy


@pytest.mark.parametrize("how", ["missing", "empty", "ones", "text"])
def test_without_the_summary_of_logs_all_transaction_indexes_are_built_again(how: str) -> None:
    files, disk = _make(is_clean=True)
    expected = _describe(disk.log)
    _DAMAGES[how](files, f"node-1/{LOG_SUMMARIES}")
    for name in files.list_names(_FOLDER):
        if name.endswith(names.TRANSACTION_INDEX):
            files.remove(f"{_FOLDER}/{name}")

    assert _describe(_open(files).log) == expected


def test_an_index_whose_middle_is_wrong_is_built_again_when_it_is_read() -> None:
    files, disk = _make(is_clean=True)
    expected = _describe(disk.log)
    path = f"{_FOLDER}/{names.file_name(0, names.OFFSET_INDEX)}"
    data = files.contents_of(path)
    assert len(data) > 24
    data[4:8] = (int.from_bytes(data[4:8]) + 1).to_bytes(4)
    again = _open(files)

    assert _describe(again.log) == expected
    assert any("built again" in line for line in again.lines)


@pytest.mark.parametrize("is_clean", [True, False])
def test_index_files_without_a_segment_are_refused_unless_the_machine_has_crashed(is_clean: bool) -> None:
    files, _ = _make(is_clean=is_clean)
    files.write_file(f"{_FOLDER}/{names.file_name(5, names.OFFSET_INDEX)}", b"")

    with pytest.raises(DamagedFileError, match=r"t-0/0+5.log: missing, and 0+5.index is there"):
        _open(files)
    if not is_clean:
        assert any("removed, it has no segment" in line for line in _open(files, "another boot").lines)


def test_a_process_that_ends_while_segments_are_deleted_leaves_no_index_without_a_log() -> None:
    for end_at in range(1, 30):
        files, disk = _make(is_clean=False)
        changes = iter(range(1, 1_000))
        files._choose_fault = lambda _, changes=changes, end_at=end_at: (  # type: ignore[misc]
            FileFault.PROCESS_ENDS if next(changes) == end_at else None
        )
        with suppress(ProcessEnded):
            disk.log.delete_records_before(disk.log.segments[3].base_offset)
            disk.partition.drop_first_segments(3)
        left = files.kill_process()
        left._choose_fault = lambda _: None

        assert _open(left).log.end_offset == disk.log.end_offset


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_segment_that_is_missing_or_cut_is_refused(number: int) -> None:
    for is_clean in (True, False):
        for is_cut in (True, False):
            files, disk = _make(is_clean=is_clean)
            disk.logs.expire(now_ms=20_000)
            base = disk.log.segments[number].base_offset
            path = f"{_FOLDER}/{names.file_name(base, names.LOG)}"
            if is_cut:
                del files.contents_of(path)[100:]
            else:
                files.remove(path)
            with pytest.raises(DamagedFileError, match=_FOLDER):
                _open(files)


def test_a_log_start_behind_the_end_does_not_remove_the_log() -> None:
    files, disk = _make(is_clean=True)
    expected = disk.log.end_offset
    files.write_file("node-1/log-start-offset-checkpoint", b"0\n1\nt 0 900000\n")
    with pytest.raises(DamagedFileError, match=r"log-start-offset-checkpoint: node-1/t-0 starts at offset 900000"):
        _open(files)
    files.remove("node-1/log-start-offset-checkpoint")

    assert _open(files).log.end_offset == expected


def test_a_topic_id_that_is_not_the_one_of_the_log_is_refused_and_mended_to_repair() -> None:
    files, disk = _make(is_clean=True)
    path = f"{_FOLDER}/partition.metadata"
    files.write_file(path, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(DamagedFileError, match=r"partition.metadata: topic id A+Q, and the log was that of"):
        _open(files)
    DiskLog(files, repair=True)

    assert _describe(_open(files).log) == _describe(disk.log)


@pytest.mark.parametrize("boot_id", [_BOOT, "another boot"])
def test_an_empty_segment_whose_indexes_have_entries_is_refused_in_a_compacted_log_too(boot_id: str) -> None:
    files, disk = _make(is_clean=False)
    base = disk.log.segments[1].base_offset
    files.contents_of(f"{_FOLDER}/{names.file_name(base, names.LOG)}").clear()
    settings = ("log.index.interval.bytes=100", "log.cleanup.policy=compact")

    with pytest.raises(DamagedFileError, match=rf"the log ends at offset {base}, and its index files have offset"):
        DiskLog(files, rules=lambda: _SMALL, settings=settings, boot_id=boot_id)
