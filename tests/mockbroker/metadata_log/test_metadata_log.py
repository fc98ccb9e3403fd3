"""The metadata log in files: what was written is read again; snapshots, torn ends, damage, and writes that fail."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.metadata_record import MetadataRecord, encode_metadata_record
from kwire.records import Record, read_batches, write_batch
from kwire.records.control import ControlType, read_control
from kwire.records.metadata.begin_transaction_record import BeginTransactionRecord
from kwire.records.metadata.config_record import ConfigRecord
from kwire.records.metadata.remove_topic_record import RemoveTopicRecord
from kwire.records.metadata.topic_record import TopicRecord
from mockbroker.log_directory.formats.checkpoints import read_leader_epochs
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.simulated_files import FileFault, SimulatedFiles
from mockbroker.metadata_log.batches import Quorum
from mockbroker.metadata_log.metadata_log import MetadataLog
from mockbroker.metadata_log.snapshots import SnapshotId, parse_snapshot_name
from mockbroker.metadata_log.tables import MetadataLogError
from tests.support.messages.golden_vectors import GOLDEN
from tests.support.stored.stored_broker import FOLDER, LOG, FailingFiles

QUORUM = Quorum(0, b"d" * 16, 0)


def new_files() -> SimulatedFiles:
    files = SimulatedFiles(random.Random(1))
    files.create_folder("node-0")
    return files


def open_log(files: SimulatedFiles, **options: Any) -> MetadataLog:
    """A log that has not begun its epoch."""
    return MetadataLog(files, "node-0", **options)


def start_log(files: SimulatedFiles, quorum: Quorum = QUORUM, **options: Any) -> MetadataLog:
    log = open_log(files, **options)
    log.start_epoch(quorum, now_ms=1_000)
    return log


def config(value: int) -> MetadataRecord:
    return MetadataRecord(ConfigRecord(4, "", f"key-{value}", "value"), 0)


def append(log: MetadataLog, *values: int) -> None:
    log.append([config(value) for value in values], now_ms=2_000)


def keys_of(log: MetadataLog) -> list[str]:
    return [record.name for record in log.image.tables[ConfigRecord].values()]


def snapshot_records(log: MetadataLog) -> list[MetadataRecord]:
    return [MetadataRecord(record, 0) for record in log.image.records()]


def names(values: Iterable[int]) -> list[str]:
    return [f"key-{value}" for value in values]


def test_a_new_log_has_nothing_and_the_next_one_what_was_written() -> None:
    files = new_files()
    log = start_log(files)
    assert (log.is_new, keys_of(log)) == (True, [])
    append(log, 1, 2)
    append(log, 3)

    again = open_log(files)

    assert (again.is_new, again.end_offset, again.epoch) == (False, 4, 1)
    assert keys_of(again) == keys_of(log) == names([1, 2, 3])


def test_a_change_is_one_batch_behind_the_leader_change_of_the_epoch() -> None:
    files = new_files()
    append(start_log(files), 1, 2)
    append(start_log(files), 3)

    batches = list(read_batches(files.read_file(LOG) or b""))

    spans = [(one.base_offset, one.last_offset, one.partition_leader_epoch, one.is_control) for one in batches]
    assert spans == [(0, 0, 1, True), (1, 2, 1, False), (3, 3, 2, True), (4, 4, 2, False)]
    assert read_control(batches[0].records()[0]).type is ControlType.LEADER_CHANGE
    assert read_leader_epochs(files.read_file(f"{FOLDER}/leader-epoch-checkpoint") or b"", "") == [(1, 0), (2, 3)]


def test_the_log_and_the_snapshot_of_a_real_broker_are_read() -> None:
    files = new_files()
    files.create_folder(FOLDER)
    files.write_file(LOG, (GOLDEN / "cluster-metadata-4.4.log").read_bytes())
    files.write_file(
        f"{FOLDER}/{SnapshotId(0, 0).file_name}", (GOLDEN / "cluster-metadata-4.4.checkpoint").read_bytes()
    )

    log = open_log(files)

    assert (log.end_offset, log.epoch) == (139, 1)
    assert "plain" in [topic.name for topic in log.image.tables[TopicRecord].values()]


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_a_snapshot_replaces_the_log_before_it(kraft_version: int) -> None:
    files = new_files()
    log = start_log(files)
    append(log, 1, 2)
    log.set_kraft_version(kraft_version, now_ms=2_500)
    end = log.end_offset
    log.write_snapshot(snapshot_records(log), now_ms=3_000)
    append(log, 3)

    again = start_log(files)

    snapshot = SnapshotId(end, 1).file_name
    assert sorted(files.list_names(FOLDER)) == sorted(
        [snapshot, f"{end:020d}.log", "leader-epoch-checkpoint", "partition.metadata"]
    )
    assert keys_of(again) == names([1, 2, 3])
    assert (again.end_offset, again.epoch, again.kraft_version) == (end + 2, 2, kraft_version)


def test_the_log_behind_a_snapshot_needs_the_next_one_when_it_has_grown_twice_as_large() -> None:
    files = new_files()
    log = start_log(files, snapshot_after=500)
    needed = [log.needs_snapshot]
    append(log, *range(40))
    needed.append(log.needs_snapshot)
    log.write_snapshot(snapshot_records(log), now_ms=3_000)
    append(log, *range(20))
    needed.append(log.needs_snapshot)
    append(log, *range(80))

    assert [*needed, log.needs_snapshot] == [False, True, False, True]
    assert MetadataLog(files, "node-0", snapshot_after=500).needs_snapshot


@pytest.mark.parametrize("left", ["old segment", "no new segment", "temporary file"])
def test_a_process_that_ends_during_a_snapshot_loses_nothing(left: str) -> None:
    files = new_files()
    log = start_log(files)
    append(log, 1)
    before = files.read_file(LOG) or b""
    log.write_snapshot(snapshot_records(log), now_ms=3_000)
    files.write_file(LOG, before)
    if left == "no new segment":
        files.remove(f"{FOLDER}/{2:020d}.log")
    if left == "temporary file":
        files.write_file(f"{FOLDER}/{SnapshotId(9, 1).file_name}.tmp", b"half")

    again = start_log(files)
    append(again, 2)

    assert keys_of(open_log(files)) == names([1, 2])
    assert open_log(files).end_offset == 4


def test_a_log_that_ends_before_its_snapshot_goes_on_behind_it() -> None:
    files = new_files()
    log = start_log(files)
    append(log, 1)
    short = files.read_file(LOG) or b""
    append(log, 2)
    log.write_snapshot(snapshot_records(log), now_ms=3_000)
    files.remove(f"{FOLDER}/{3:020d}.log")
    files.write_file(LOG, short)

    again = start_log(files)
    append(again, 3)

    assert keys_of(open_log(files)) == names([1, 2, 3])
    assert open_log(files).end_offset == 5


@pytest.mark.parametrize("cut", [1, 30, 61, 80])
def test_an_unfinished_last_write_is_cut_off_with_one_line(cut: int) -> None:
    files, lines = new_files(), list[str]()
    log = start_log(files)
    append(log, 1)
    size = len(files.read_file(LOG) or b"")
    append(log, 2, 3)
    whole = files.read_file(LOG) or b""
    files.write_file(LOG, whole[: size + cut])

    again = open_log(files, report=lines.append)

    assert lines == [f"{LOG}, byte {size}: the last write was not finished; {cut} bytes of it are cut off"]
    assert keys_of(again) == names([1])
    again.start_epoch(QUORUM, now_ms=3_000)
    append(again, 4)
    assert keys_of(open_log(files)) == names([1, 4])


def test_damage_before_valid_batches_is_refused_and_cut_off_to_repair() -> None:
    files, lines = new_files(), list[str]()
    log = start_log(files)
    append(log, 1)
    size = len(files.read_file(LOG) or b"")
    append(log, 2)
    append(log, 3)
    data = bytearray(files.read_file(LOG) or b"")
    data[size + 70] ^= 1
    files.write_file(LOG, data)

    with pytest.raises(DamagedFileError, match=f"{LOG}, byte {size}: no valid batch") as caught:
        open_log(files)
    assert (caught.value.name, caught.value.position) == (LOG, size)
    assert files.read_file(LOG) == bytes(data)

    repaired = open_log(files, repair=True, report=lines.append)
    assert keys_of(repaired) == names([1])
    assert len(lines) == 1
    assert "repaired" in lines[0]
    assert keys_of(open_log(files)) == names([1])


@pytest.mark.parametrize("change", ["flipped bit", "cut"])
def test_a_damaged_snapshot_is_refused_and_used_as_far_as_it_goes_to_repair(change: str) -> None:
    files, lines = new_files(), list[str]()
    log = start_log(files)
    append(log, 1)
    log.write_snapshot(snapshot_records(log), now_ms=3_000)
    append(log, 2)
    path = f"{FOLDER}/{SnapshotId(2, 1).file_name}"
    data = bytearray(files.read_file(path) or b"")
    if change == "cut":
        data = data[:-1]
    else:
        data[-1] ^= 1
    files.write_file(path, data)

    with pytest.raises(DamagedFileError, match=path):
        open_log(files)

    assert keys_of(open_log(files, repair=True, report=lines.append)) == names([1, 2])
    assert len(lines) == 1


def test_a_missing_segment_is_refused() -> None:
    files = new_files()
    log = start_log(files)
    append(log, 1)
    log.write_snapshot(snapshot_records(log), now_ms=3_000)
    append(log, 2)
    files.remove(f"{FOLDER}/{SnapshotId(2, 1).file_name}")

    with pytest.raises(DamagedFileError, match="it begins at offset 2, and the records before it end at 0"):
        open_log(files)


def test_records_that_do_not_fit_are_refused_with_their_offset_and_left_out_to_repair() -> None:
    files, lines = new_files(), list[str]()
    append(start_log(files), 1)
    value = encode_metadata_record(RemoveTopicRecord(b"t" * 16), 0)
    files.open_file(LOG).append(write_batch([Record(2, 5, None, value)], base_offset=2, partition_leader_epoch=1))

    with pytest.raises(MetadataLogError, match="offset 2: RemoveTopicRecord"):
        open_log(files)

    assert keys_of(open_log(files, repair=True, report=lines.append)) == names([1])
    assert "the record is left out" in lines[0]


@pytest.mark.parametrize("value", [b"\1\x63\0", b"\1\2\x09t", b"\2\2\0"], ids=["record", "version", "frame"])
def test_a_record_of_a_newer_release_is_refused_even_to_repair(value: bytes) -> None:
    files = new_files()
    append(start_log(files), 1)
    files.open_file(LOG).append(write_batch([Record(2, 5, None, value)], base_offset=2, partition_leader_epoch=1))

    for repair in (False, True):
        with pytest.raises(MetadataLogError, match="offset 2 to 2"):
            open_log(files, repair=repair)


def test_a_transaction_without_an_end_is_aborted_by_the_next_epoch() -> None:
    files = new_files()
    log = start_log(files)
    log.append([MetadataRecord(BeginTransactionRecord("x"), 0), config(1)], now_ms=2_000)

    again = start_log(files)
    append(again, 2)

    assert keys_of(again) == keys_of(open_log(files)) == names([2])


@pytest.mark.parametrize("fault", [FileFault.WRITE_FAILS, FileFault.SHORT_WRITE, FileFault.SYNC_FAILS])
def test_a_write_that_fails_leaves_the_log_as_it_was(fault: FileFault) -> None:
    files = FailingFiles()
    files.create_folder("node-0")
    log = start_log(files, fsync=True)
    append(log, 1)
    before = files.read_file(LOG)

    files.fault = fault
    with pytest.raises(OSError, match="simulated"):
        append(log, 2)
    assert (files.read_file(LOG), keys_of(log), log.end_offset) == (before, names([1]), 2)
    files.fault = None
    append(log, 3)

    assert keys_of(open_log(files)) == names([1, 3])


def test_what_was_synced_survives_a_crash_of_the_machine() -> None:
    files = new_files()
    log = start_log(files, fsync=True)
    append(log, 1)
    append(log, 2)

    again = open_log(files.crash_machine())

    assert keys_of(again) == names([1, 2])


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32), counts=st.lists(st.integers(1, 5), min_size=1, max_size=8), synced=st.integers(0, 8))
def test_after_a_crash_of_the_machine_the_log_is_a_beginning_of_what_was_written(
    seed: int, counts: list[int], synced: int
) -> None:
    files = SimulatedFiles(random.Random(seed))
    files.create_folder("node-0")
    log = start_log(files, snapshot_after=400)
    states, number = [names([])], 0
    at_least = 0
    for done, count in enumerate(counts):
        append(log, *range(number, number + count))
        number += count
        states.append(names(range(number)))
        if done == synced:
            log.sync()
            at_least = len(states) - 1
        if log.needs_snapshot:
            log.write_snapshot(snapshot_records(log), now_ms=5_000)
            at_least = len(states) - 1

    again = open_log(files.crash_machine(), report=lambda _: None)

    assert keys_of(again) in states[at_least:]


@pytest.mark.parametrize("name", ["bootstrap.checkpoint", "0-0.checkpoint", f"{0:020d}-{0:010d}.checkpoint.part"])
def test_other_names_are_no_snapshots(name: str) -> None:
    assert parse_snapshot_name(name) is None
    assert parse_snapshot_name(SnapshotId(7, 3).file_name) == (7, 3)
