"""Only regular files that are not compressed have an index; compressed ones are unpacked for it."""

from __future__ import annotations

import errno
import gzip
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from kwire.capture import Options, index
from kwire.capture.index.columns import OpenFile
from kwire.capture.index.scan.files import UnpackedFile, unpack_capture
from kwire.capture.reader import open_index, read_batches, read_rows
from tests.support.captures.index_captures import FILES, batch_rows

pytestmark = pytest.mark.slow


def test_compressed_captures_folders_and_pipes_have_no_index(tmp_path: Path) -> None:
    packed, pipe = tmp_path / "packed.pcap.gz", tmp_path / "pipe"
    packed.write_bytes(gzip.compress(FILES[0].read_bytes()))
    os.mkfifo(pipe)

    for path in (packed, tmp_path, pipe):
        with pytest.raises(index.NotIndexed):
            index.build_index(path)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_compressed_captures_are_read_by_columns_with_the_rows_of_the_plain_ones(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    for capture in FILES[:3]:
        plain = capture.read_bytes()
        packed = tmp_path / f"{capture.name}.packed"
        packed.write_bytes(pack(plain))

        for source in (packed, packed.read_bytes()):
            opened = open_index(source)
            assert opened is not None
            assert batch_rows(read_batches(source, options=Options(name="x"))) == batch_rows(
                read_batches(plain, options=Options(name="x"))
            )
        assert {row["file"] for row in batch_rows(read_batches(packed))} == {str(packed)}


def test_a_damaged_or_large_compressed_capture_is_indexed_as_far_as_it_is_unpacked(tmp_path: Path) -> None:
    packed = tmp_path / "damaged.pcap.gz"
    packed.write_bytes(gzip.compress(FILES[0].read_bytes())[:-100])
    assert open_index(packed) is not None
    rows = batch_rows(read_batches(packed))
    assert [row["correlation_id"] for row in rows] == [row["correlation_id"] for row in read_rows(packed)]
    assert any("the gzip stream is damaged" in str(row["issues"]) for row in rows)

    packed.write_bytes(gzip.compress(FILES[0].read_bytes()))
    opened = open_index(packed, unpacked_size_max=1_000)
    assert opened is not None
    assert "the limit that was set" in opened.issues[-1][1].detail


def test_an_unpacked_capture_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    packed = gzip.compress(FILES[0].read_bytes())
    unpacked = unpack_capture(packed)

    assert isinstance(unpacked, UnpackedFile)
    assert index.build_index(unpacked).packet_count
    assert list(folder.iterdir()) == []


def test_a_capture_that_does_not_fit_on_the_disk_is_read_as_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(file: OpenFile, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(OpenFile, "write", write)
    packed = gzip.compress(FILES[0].read_bytes())

    with pytest.raises(index.NotIndexed, match=r"cannot be unpacked .*No space left"):
        unpack_capture(packed)
    assert batch_rows(read_batches(packed))
