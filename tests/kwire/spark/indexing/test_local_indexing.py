"""Indexing on one machine: several files in parallel, and a large one by several processes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.index.scan import scanner
from kwire.spark.indexing import local_indexing
from kwire.spark.indexing.local_indexing import build_indexes
from tests.support.captures.capture_files import SHARE
from tests.support.captures.index_captures import copy_connections


def test_several_cores_build_the_same_sidecars_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / "one.pcap", tmp_path / "other.pcap"]
    for number, file in enumerate(files):
        file.write_bytes(copy_connections(SHARE, 2 + number))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(work))
    monkeypatch.setattr(scanner, "SPAN_SIZE", 4_096)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(local_indexing, "PARALLEL_SIZE_MIN", 1)
    expected = [index.open_index(file, cache=tmp_path / "expected") for file in files]

    found = build_indexes([str(file) for file in files], str(tmp_path / "cache"))

    for file, own in zip(files, expected, strict=True):
        several = found[str(file)]
        assert several is not None
        assert several.sidecar is not None
        assert own.sidecar is not None
        assert Path(several.sidecar).read_bytes() == Path(own.sidecar).read_bytes()
    assert not list(work.iterdir())


def test_small_files_are_indexed_without_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / "one.pcap", tmp_path / "other.pcap"]
    for file in files:
        file.write_bytes(SHARE.read_bytes())
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(local_indexing, "ProcessPoolExecutor", None)

    found = build_indexes([*map(str, files)], str(tmp_path / "cache"))

    assert [len(each.flows) for each in found.values() if each is not None] == [len(index.build_index(SHARE).flows)] * 2


def test_leftovers_of_a_killed_run_are_removed_by_the_next_query(tmp_path: Path) -> None:
    capture, left = tmp_path / "one.pcap", tmp_path / ".left.part.kwire-index"
    capture.write_bytes(SHARE.read_bytes())
    left.touch()
    os.utime(left, (9, 9))

    build_indexes([str(capture)], index.BESIDE)

    assert sorted(file.name for file in tmp_path.iterdir()) == ["one.pcap", "one.pcap.kwire-index"]
