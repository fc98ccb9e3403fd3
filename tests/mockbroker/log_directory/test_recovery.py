"""Opening folders of partitions: those of a real Kafka, and those that a crash or a disk has damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.records import Record, write_batch
from mockbroker.log_directory.disk_files import DiskFiles
from mockbroker.log_directory.formats import checkpoints, names
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.recovery import LoadedLog, RecoveryOptions, load_partition
from mockbroker.log_directory.segment_file import SegmentFile
from tests.support.log_directory import unpack_kafka_directory


def _load(
    root: Path, folder: str, *, recovery_point: int | None = None, repair: bool = False
) -> tuple[LoadedLog, list[str]]:
    lines: list[str] = []
    options = RecoveryOptions(recovery_point, index_interval=4096, repair=repair, report=lines.append)
    loaded = load_partition(DiskFiles(root), folder, options)
    for one in loaded.segments:
        one.segment.file.close()
    return loaded, lines


def _states(loaded: LoadedLog) -> list[tuple[int, ...]]:
    return [
        (one.producer_id, one.epoch, one.last_sequence, one.last_timestamp, one.transaction_start or -1)
        for one in loaded.producers.all_states()
    ]


def test_every_partition_of_kafka_opens(tmp_path: Path) -> None:
    directory = unpack_kafka_directory(tmp_path)
    name = checkpoints.RECOVERY_POINTS
    ends = checkpoints.read_offsets((directory / name).read_bytes(), name)

    for (topic, index), end_offset in ends.items():
        loaded, lines = _load(directory, names.folder_name(topic, index))
        assert loaded.end_offset == end_offset, topic
        assert lines == []
        assert loaded.leader_epochs == ([(0, 0)])
    loaded, _ = _load(directory, "txn-0")
    assert [len(one.batches) for one in loaded.segments] == [4, 4, 4, 1]
    assert loaded.producers.first_unstable_offset == 66
    aborted = loaded.producers.aborted_transactions(0, 67)
    assert [(one.first_offset, one.last_offset) for one in aborted] == [(11, 21), (44, 54)]


@pytest.mark.parametrize("folder", ["txn-0", "plain-0", "compacted-0"])
def test_producer_states_without_snapshots_are_those_of_the_batches(tmp_path: Path, folder: str) -> None:
    directory = unpack_kafka_directory(tmp_path)
    with_snapshots, _ = _load(directory, folder)
    for path in (directory / folder).glob("*.snapshot"):
        path.unlink()

    without, _ = _load(directory, folder)

    assert _states(without) == _states(with_snapshots)
    assert without.producers.all_aborted() == with_snapshots.producers.all_aborted()


def _write_segments(root: Path, sizes: list[list[int]]) -> list[int]:
    """Segments of folder t-0 with batches of these record sizes; returns the position after each batch of the last."""
    files = DiskFiles(root)
    files.create_folder("t-0")
    offset, ends = 0, [0]
    for batch_sizes in sizes:
        segment, ends = SegmentFile(files, "t-0", offset, index_interval=100), [0]
        for size in batch_sizes:
            record = Record(offset=offset, timestamp=1_000 + offset, key=None, value=b"v" * size)
            data = write_batch([record])
            segment.append(data, last_offset=offset, max_timestamp=1_000 + offset)
            ends.append(segment.size)
            offset += 1
        segment.write_indexes([])
        segment.file.close()
    return ends


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_an_unfinished_write_is_cut_to_the_batches_before_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("log")
    ends = _write_segments(root, [[5, 10], [20, 0, 300, 7]])
    path = root / "t-0" / names.file_name(2, names.LOG)
    size = data.draw(st.integers(0, ends[-1]))
    tail = data.draw(st.sampled_from([b"", b"\0" * 100, b"\2" * 70]))
    original = path.read_bytes()
    content = original[:size] + tail
    path.write_bytes(content)

    loaded, lines = _load(root, "t-0", recovery_point=2)

    # Zeros may be what the last batch ends with.
    whole = max(number for number, end in enumerate(ends) if content[:end] == original[:end])
    assert loaded.end_offset == 2 + whole
    assert path.stat().st_size == ends[whole]
    is_whole = len(content) == ends[whole]
    assert len(lines) == (0 if is_whole else 1)
    assert is_whole or lines[0].startswith(f"t-0/{path.name}: cut {len(content) - ends[whole]} bytes from byte")
    assert _load(root, "t-0", recovery_point=2)[1] == []


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3), st.data())
def test_damage_before_valid_batches_is_refused_with_file_and_position(
    tmp_path_factory: pytest.TempPathFactory, number: int, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("log")
    ends = _write_segments(root, [[5, 10], [20, 0, 300, 7, 9]])
    path = root / "t-0" / names.file_name(2, names.LOG)
    content = bytearray(path.read_bytes())
    # Not the base offset and the epoch: the checksum does not cover them.
    at = data.draw(st.integers(ends[number] + 16, ends[number + 1] - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)

    with pytest.raises(DamagedFileError) as caught:
        _load(root, "t-0", recovery_point=0)

    assert caught.value.position == ends[number]
    assert f"t-0/{path.name}, byte {ends[number]}: no valid batch" in str(caught.value)
    assert f"a valid batch follows at byte {ends[number + 1]}, which --repair would remove too" in str(caught.value)
    assert path.read_bytes() == content
    repaired, lines = _load(root, "t-0", recovery_point=0, repair=True)
    assert repaired.end_offset == 2 + number
    assert len(lines) == 1


def test_damage_in_an_earlier_segment_is_refused_and_repair_removes_the_later_ones(tmp_path: Path) -> None:
    _write_segments(tmp_path, [[5, 10], [20], [30]])
    path = tmp_path / "t-0" / names.file_name(0, names.LOG)
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(DamagedFileError, match="another segment follows, which --repair would remove too"):
        _load(tmp_path, "t-0", recovery_point=0)
    loaded, lines = _load(tmp_path, "t-0", recovery_point=0, repair=True)

    assert loaded.end_offset == 1
    assert sorted(path.name for path in (tmp_path / "t-0").glob("*.log")) == [names.file_name(0, names.LOG)]
    assert len(lines) == 3


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="lists open files by /proc")
def test_a_partition_that_is_refused_leaves_no_file_open(tmp_path: Path) -> None:
    _write_segments(tmp_path, [[5, 10], [20, 30], [40]])
    path = tmp_path / "t-0" / names.file_name(2, names.LOG)
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(DamagedFileError):
        _load(tmp_path, "t-0", recovery_point=0)

    is_open = [link for link in Path("/proc/self/fd").iterdir() if str(tmp_path) in os.path.realpath(link)]
    assert is_open == []


def test_offsets_below_the_recovery_point_are_not_verified(tmp_path: Path) -> None:
    _write_segments(tmp_path, [[50, 10], [20]])
    path = tmp_path / "t-0" / names.file_name(0, names.LOG)
    content = bytearray(path.read_bytes())
    content[90] ^= 1
    path.write_bytes(content)

    assert _load(tmp_path, "t-0", recovery_point=2)[0].end_offset == 3
    with pytest.raises(DamagedFileError, match=r"batch\.crc"):
        _load(tmp_path, "t-0", recovery_point=1)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_missing_and_broken_indexes_are_reported_and_built_again(tmp_path: Path, suffix: str) -> None:
    _write_segments(tmp_path, [[5_000, 5_000, 5_000]])
    path = tmp_path / "t-0" / names.file_name(0, suffix)
    path.unlink()
    assert _load(tmp_path, "t-0")[1] == [f"t-0/{path.name}: missing, built again"]
    path.write_bytes(b"abc")

    loaded, lines = _load(tmp_path, "t-0")

    assert len(lines) == 1
    assert lines[0].startswith(f"t-0/{path.name}, byte 3: 3 bytes are no multiple of the entry size")
    assert len(loaded.segments[0].segment.index.offset_entries) == 2


def test_an_interrupted_replacement_is_finished(tmp_path: Path) -> None:
    """After compaction of two segments into one Kafka had renamed the new one to `.swap`, and removed nothing yet."""
    _write_segments(tmp_path, [[5, 10], [20], [30]])
    folder = tmp_path / "t-0"
    first, second = (folder / names.file_name(base, names.LOG) for base in (0, 2))
    (folder / f"{first.name}.swap").write_bytes(first.read_bytes() + second.read_bytes())
    (folder / f"{first.name}.cleaned").write_bytes(b"unfinished")
    (folder / f"{second.name}.deleted").write_bytes(b"removed")

    loaded, lines = _load(tmp_path, "t-0")

    assert [len(one.batches) for one in loaded.segments] == [3, 1]
    assert lines[0] == f"t-0/{first.name}.swap: finished replacing 2 segments"
    assert sorted(
        path.name for path in folder.iterdir() if path.suffix in {".log", ".swap", ".cleaned", ".deleted"}
    ) == [
        names.file_name(0, names.LOG),
        names.file_name(3, names.LOG),
    ]


def test_a_damaged_marker_in_a_log_that_was_closed_is_named(tmp_path: Path) -> None:
    """After a clean shutdown checksums are not verified, but without a snapshot markers are read."""
    directory = unpack_kafka_directory(tmp_path)
    path = directory / "txn-0" / names.file_name(0, names.LOG)
    for snapshot in path.parent.glob("*.snapshot"):
        snapshot.unlink()
    content = bytearray(path.read_bytes())
    content[-1 - 17] ^= 0x40  # In the header of the marker's only record.
    path.write_bytes(content)

    with pytest.raises(DamagedFileError, match=f"txn-0/{path.name}: no valid batch: "):
        _load(directory, "txn-0")


def test_bytes_of_loaded_batches_are_read_from_the_file(tmp_path: Path) -> None:
    _write_segments(tmp_path, [[5, 10]])
    files = DiskFiles(tmp_path)
    loaded = load_partition(files, "t-0", RecoveryOptions(None, 4096, repair=False, report=lambda _: None))

    values = [record.value for batch in loaded.segments[0].batches for record in batch.records()]

    assert values == [b"v" * 5, b"v" * 10]
    loaded.segments[0].segment.file.close()
