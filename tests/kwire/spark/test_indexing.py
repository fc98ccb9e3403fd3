"""Phase 1 on one machine: files side by side, and a large one by several processes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.index.walking import walk
from kwire.spark.indexing import indexed
from tests.kwire.capture.index.kit import copies
from tests.kwire.capture.wire import SHARE


def test_files_share_the_cores_and_leave_the_sidecars_that_one_core_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / "one.pcap", tmp_path / "other.pcap"]
    for number, file in enumerate(files):
        file.write_bytes(copies(SHARE, 2 + number))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(work))
    monkeypatch.setattr(walk, "SPAN_SIZE", 4_096)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    expected = [index.of(file, cache=tmp_path / "expected") for file in files]

    found = indexed([str(file) for file in files], str(tmp_path / "cache"))

    for file, own in zip(files, expected, strict=True):
        several = found[str(file)]
        assert several is not None
        assert several.sidecar is not None
        assert own.sidecar is not None
        assert Path(several.sidecar).read_bytes() == Path(own.sidecar).read_bytes()
    assert not list(work.iterdir())


def test_what_a_killed_run_left_beside_a_capture_goes_with_the_next_query(tmp_path: Path) -> None:
    capture, left = tmp_path / "one.pcap", tmp_path / ".left.part.kwire-index"
    capture.write_bytes(SHARE.read_bytes())
    left.touch()
    os.utime(left, (9, 9))

    indexed([str(capture)], index.BESIDE)

    assert sorted(file.name for file in tmp_path.iterdir()) == ["one.pcap", "one.pcap.kwire-index"]
