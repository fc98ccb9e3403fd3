"""Damaged files of a log directory: the error names the file, the place, and what was expected."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.log_directory.formats import checkpoints, indexes, names, producer_snapshots, properties
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.state.storage.producers import BatchMetadata, ProducerState

_STATE = ProducerState(7, 1, 2, 1_000, 5)
_STATE.batches.append(BatchMetadata(2_147_483_647, 3, 10, 14, 1_000))
_SNAPSHOT = producer_snapshots.write_snapshot([_STATE])
_READERS: list[Callable[[bytes], object]] = [
    lambda data: indexes.read_offset_index(data, 5, "f"),
    lambda data: indexes.read_time_index(data, 5, "f"),
    lambda data: indexes.read_transaction_index(data, "f"),
    lambda data: producer_snapshots.read_snapshot(data, "f"),
    lambda data: checkpoints.read_offsets(data, "f"),
    lambda data: checkpoints.read_leader_epochs(data, "f"),
    lambda data: properties.read_meta_properties(data, "f"),
    lambda data: properties.read_partition_metadata(data, "f"),
    lambda data: properties.read_clean_shutdown(data, "f"),
]


@given(st.sampled_from(_READERS), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(read: Callable[[bytes], object], data: bytes) -> None:
    with contextlib.suppress(DamagedFileError):
        read(data)


@given(st.integers(0, len(_SNAPSHOT) - 1), st.integers(1, 255))
def test_a_changed_byte_of_a_snapshot_is_found(at: int, change: int) -> None:
    data = bytearray(_SNAPSHOT)
    data[at] ^= change

    with pytest.raises(DamagedFileError):
        producer_snapshots.read_snapshot(bytes(data), "f")


def test_a_snapshot_keeps_the_last_batch_whose_sequence_continued_at_zero() -> None:
    assert producer_snapshots.read_snapshot(_SNAPSHOT, "f") == [_STATE]


@pytest.mark.parametrize(
    ("read", "data", "message"),
    [
        (_READERS[0], b"\0" * 7, "f, byte 7: 7 bytes are no multiple of the entry size, 8"),
        (_READERS[0], b"\0\0\0\1\0\0\0\2\0\0\0\1\0\0\0\3", "offset 6 at position 3 is not after the one before"),
        (_READERS[0], b"\0" * 8 + b"\0\0\0\1\0\0\0\2", "f, byte 0: zeros before an entry"),
        (_READERS[2], b"\0\1" + b"\0" * 32, "f, byte 0: version 1; expected 0"),
        (_READERS[3], b"\0\1", "2 bytes; a header has 10"),
        (_READERS[3], b"\0\1" + b"\0" * 8, "checksum 0x00000000, but that of the entries is 0x48674bc7"),
        (_READERS[4], b"0\n2\na 0 1\n", "1 entries; line 2 says 2"),
        (_READERS[4], b"1\n0\n", "line 1: version 1; expected 0"),
        (_READERS[4], b"0\n1\na 0 x\n", "line 3: 'x' is no number"),
        (_READERS[5], b"0\n2\n1 5\n1 6\n", "line 4: epoch 1 at 6 after (1, 5)"),
        (_READERS[6], b"version=1\nnode.id=0\n", "f: no directory.id"),
        (_READERS[6], b"version=2\n", "version '2'; expected 1"),
        (_READERS[7], b"version: 0\ntopic_id: abc", "topic_id: "),
        (_READERS[8], b"{}", "no broker epoch in b'{}'"),
    ],
)
def test_the_error_says_what_was_seen_and_expected(read: Callable[[bytes], object], data: bytes, message: str) -> None:
    with pytest.raises(DamagedFileError) as caught:
        read(data)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["a-01", "a", "-1", "a-b", "a-0.x-delete", "../a-0", "a-0-future"])
def test_other_folders_are_no_partitions(name: str) -> None:
    assert names.parse_folder_name(name) is None


def test_files_of_other_kinds_are_no_segments() -> None:
    assert names.parse_file_name("00000000000000000000.log.deleted") is None
    assert names.parse_file_name("0.log") is None
    assert names.parse_folder_name("a-b-12") == ("a-b", 12)
