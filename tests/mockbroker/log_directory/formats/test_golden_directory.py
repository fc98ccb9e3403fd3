"""Every file of a directory that a real Kafka 4.4.0 wrote is read, and written back with the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mockbroker.log_directory.formats import checkpoints, indexes, names, producer_snapshots, properties
from tests.support.log_directory import unpack_kafka_directory


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_kafka_directory(tmp_path_factory.mktemp("kafka"))


def _segment_files(directory: Path, suffix: str) -> Iterator[tuple[int, bytes]]:
    """The base offset and contents of each file with a suffix, without those that Kafka has preallocated."""
    for path in sorted(directory.glob(f"*-*/*{suffix}")):
        parsed = names.parse_file_name(path.name)
        assert parsed is not None
        if not path.parent.name.startswith("__cluster_metadata"):
            yield parsed[0], path.read_bytes()


def test_offset_indexes(directory: Path) -> None:
    found = [
        (indexes.read_offset_index(data, base, "index"), base, data)
        for base, data in _segment_files(directory, ".index")
    ]

    assert sum(len(entries) for entries, _, _ in found) == 6
    assert all(indexes.write_offset_index(entries, base) == data for entries, base, data in found)


def test_time_indexes(directory: Path) -> None:
    found = [
        (indexes.read_time_index(data, base, "timeindex"), base, data)
        for base, data in _segment_files(directory, ".timeindex")
    ]

    assert max(len(entries) for entries, _, _ in found) == 2
    assert all(indexes.write_time_index(entries, base) == data for entries, base, data in found)


def test_transaction_indexes(directory: Path) -> None:
    found = [
        (indexes.read_transaction_index(data, "txnindex"), data) for _, data in _segment_files(directory, ".txnindex")
    ]

    assert [(one.first_offset, one.last_offset) for aborted, _ in found for one in aborted] == [(11, 21), (44, 54)]
    assert all(indexes.write_transaction_index(aborted) == data for aborted, data in found)


def test_producer_snapshots(directory: Path) -> None:
    found = [
        (producer_snapshots.read_snapshot(data, "snapshot"), data) for _, data in _segment_files(directory, ".snapshot")
    ]

    assert all(producer_snapshots.write_snapshot(states) == data for states, data in found)
    assert {state.transaction_start for states, _ in found for state in states} == {None, 66}
    assert any(state.last_sequence > 0 for states, _ in found for state in states)


def test_preallocated_indexes_end_where_zeros_begin(directory: Path) -> None:
    folder = directory / "__cluster_metadata-0"
    offsets = (folder / names.file_name(0, names.OFFSET_INDEX)).read_bytes()
    times = (folder / names.file_name(0, names.TIME_INDEX)).read_bytes()

    assert len(offsets) > 10_000_000
    found = indexes.read_offset_index(offsets, 0, "index")
    assert len(found) == 2
    assert found[0] == indexes.OffsetEntry(68, 4649)
    assert all(entry.offset > 0 for entry in indexes.read_time_index(times, 0, "timeindex"))


def test_checkpoints(directory: Path) -> None:
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS, checkpoints.CLEANED_OFFSETS):
        data = (directory / name).read_bytes()
        assert checkpoints.write_offsets(checkpoints.read_offsets(data, name)) == data
    points = checkpoints.read_offsets((directory / checkpoints.RECOVERY_POINTS).read_bytes(), "points")
    assert points["plain", 0] == 160
    assert points["txn", 0] == 67
    for path in directory.glob(f"*-*/{checkpoints.LEADER_EPOCHS}"):
        epochs = checkpoints.read_leader_epochs(path.read_bytes(), path.name)
        assert checkpoints.write_leader_epochs(epochs) == path.read_bytes()


def test_properties(directory: Path) -> None:
    identity = properties.read_meta_properties((directory / properties.META_PROPERTIES).read_bytes(), "meta.properties")
    assert identity.cluster_id == "Sxq6YZ3zQ_i8vZ0cGkD5Vw"
    assert identity.node_id == 0
    assert properties.read_meta_properties(properties.write_meta_properties(identity), "written") == identity
    for path in directory.glob(f"*-*/{properties.PARTITION_METADATA}"):
        topic_id = properties.read_partition_metadata(path.read_bytes(), path.name)
        assert properties.write_partition_metadata(topic_id) == path.read_bytes()
    mark = (directory / properties.CLEAN_SHUTDOWN).read_bytes()
    assert properties.write_clean_shutdown(properties.read_clean_shutdown(mark, "mark")) == mark


def test_names(directory: Path) -> None:
    folders = [path for path in directory.iterdir() if path.is_dir()]
    assert len(folders) == 14
    for folder in folders:
        parsed = names.parse_folder_name(folder.name)
        assert parsed is not None
        assert names.folder_name(*parsed) == folder.name
        for path in folder.iterdir():
            file = names.parse_file_name(path.name)
            assert file is None or names.file_name(*file) == path.name
