"""Sidecars: an index read back is the index that was written; one that does not fit its capture is not used."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import struct
from pathlib import Path

import numpy as np
import pytest

from kwire.capture import arrow, index
from kwire.capture.index import columns, sidecar
from kwire.capture.index.walking import walk
from tests.kwire.capture.index.kit import FILES, copies, made
from tests.kwire.capture.wire import SHARE, block, interface, section


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copy(SHARE, tmp_path / "share.pcap"))


def rows(own: index.Index) -> list[dict[str, object]]:
    return [row for batch in arrow.flow_batches([own], None) for row in batch.to_pylist()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_index_read_back_says_the_same(path: Path, tmp_path: Path) -> None:
    built = index.built(path)
    index.save(built, tmp_path / "index")
    found = index.load(path, tmp_path / "index")

    assert found is not None
    assert found.flows == built.flows
    assert list(index.segments_of([found])) == list(index.segments_of([built]))
    assert rows(found) == rows(built)


def test_the_second_reader_takes_the_sidecar_of_the_first(capture: Path) -> None:
    first = index.of(capture, cache=index.BESIDE)
    sidecar = index.sidecar_of(capture, index.BESIDE)
    written = sidecar.stat().st_mtime_ns
    second = index.of(capture, cache=index.BESIDE)

    assert sidecar.stat().st_mtime_ns == written
    assert first.sidecar == second.sidecar == str(sidecar)
    assert rows(first) == rows(second)


def test_captures_of_one_name_have_sidecars_of_their_own_in_a_folder(tmp_path: Path) -> None:
    places = {index.sidecar_of(tmp_path / folder / "a.pcap", tmp_path / "cache") for folder in ("one", "two")}

    assert len(places) == 2
    assert {each.parent for each in places} == {tmp_path / "cache"}


def test_a_folder_that_cannot_be_made_is_no_error(capture: Path) -> None:
    assert index.of(capture, cache=capture / "no folder").sidecar is None


def test_a_capture_that_grew_or_was_touched_is_indexed_again(capture: Path) -> None:
    sidecar = index.sidecar_of(capture, index.BESIDE)
    index.save(index.built(capture), sidecar)
    about = capture.stat()

    os.utime(capture, ns=(about.st_atime_ns, about.st_mtime_ns + 1))
    assert index.load(capture, sidecar) is None
    os.utime(capture, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert index.load(capture, sidecar) is not None
    with capture.open("ab") as file:
        file.write(b"more")
    os.utime(capture, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert index.load(capture, sidecar) is None


def test_another_capture_of_the_same_size_and_time_is_not_taken_for_the_first(capture: Path) -> None:
    sidecar = index.sidecar_of(capture, index.BESIDE)
    index.save(index.built(capture), sidecar)
    about = capture.stat()
    data = bytearray(capture.read_bytes())
    data[-1] ^= 1
    capture.write_bytes(data)
    os.utime(capture, ns=(about.st_atime_ns, about.st_mtime_ns))

    assert index.load(capture, sidecar) is None


def test_a_damaged_sidecar_is_not_trusted(capture: Path) -> None:
    sidecar = index.sidecar_of(capture, index.BESIDE)
    index.save(index.built(capture), sidecar)
    good = sidecar.read_bytes()

    for place in range(0, len(good), max(len(good) // 60, 1)):
        bad = bytearray(good)
        bad[place] ^= 0x55
        sidecar.write_bytes(bad)
        found = index.load(capture, sidecar)
        # The bytes between columns belong to none.
        assert found is None or rows(found) == rows(index.built(capture)), place
    for size in (0, 5, 20, len(good) // 2, len(good) - 1):
        sidecar.write_bytes(good[:size])
        assert index.load(capture, sidecar) is None


@pytest.mark.parametrize("order", ["<", ">"])
def test_secrets_are_read_from_the_capture_and_never_kept_in_the_sidecar(tmp_path: Path, order: str) -> None:
    secrets = [f"CLIENT_RANDOM {byte * 32} {byte * 48}" for byte in ("a1", "b2")]
    blocks = [block(10, struct.pack(order + "II", 0x544C534B, len(each)) + each.encode(), order) for each in secrets]
    capture = tmp_path / "tls.pcapng"
    capture.write_bytes(section(order) + blocks[0] + interface(order) + blocks[1])

    found = index.of(capture, cache=index.BESIDE)

    assert found.sidecar is not None
    written = Path(found.sidecar).read_bytes()
    assert b"CLIENT_RANDOM" not in written
    assert not any(each.encode() in written for each in ("a1" * 32, "b2" * 48))
    assert found.secrets == "\n".join(secrets)
    assert len(found.keys()) == 2
    assert index.built(capture.read_bytes()).secrets == found.secrets


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_sidecar_is_read_by_no_more_people_than_its_capture(capture: Path, tmp_path: Path, mode: int) -> None:
    capture.chmod(mode)
    umask = os.umask(0)
    try:
        found = index.of(capture, cache=tmp_path / "own" / "cache")
    finally:
        os.umask(umask)

    assert found.sidecar is not None
    assert stat.S_IMODE(os.stat(found.sidecar).st_mode) == mode
    assert stat.S_IMODE((tmp_path / "own" / "cache").stat().st_mode) == 0o700


def test_a_run_that_is_killed_leaves_a_file_that_is_known_to_be_half(
    capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "replace", lambda *names: names)
    index.save(index.built(capture), index.sidecar_of(capture, index.BESIDE))

    (left,) = (file for file in capture.parent.iterdir() if file != capture)
    assert left.name.startswith(".")
    assert left.name.endswith(".part.kwire-index")


def test_each_column_of_a_flow_is_one_that_is_read(capture: Path) -> None:
    kept = {name for name in index.built(capture).columns if name.startswith("flow.")}
    told = {"first_ts", "last_ts", "packets", "size", "link", "syns", "why", "opener", "ended", "words"}

    assert kept == {f"flow.{name}" for name in told}


def test_an_index_travels_as_the_name_of_its_sidecar(capture: Path) -> None:
    kept = index.of(capture, cache=index.BESIDE)
    alone = index.built(capture)

    assert len(pickle.dumps(kept)) < 1000
    assert rows(pickle.loads(pickle.dumps(kept))) == rows(pickle.loads(pickle.dumps(alone))) == rows(alone)


def test_columns_that_grow_too_large_move_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    small = rows(index.built(SHARE))
    monkeypatch.setattr(columns, "SPILL_SIZE", 100)
    found = columns.Columns()
    for number in range(20):
        found.add(str(number), np.arange(number, dtype=np.int32))

    assert [found[str(number)].tolist() for number in range(20)] == [list(range(number)) for number in range(20)]
    assert rows(index.built(SHARE)) == small


def test_pieces_of_bodies_are_found_whichever_span_they_came_in(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = made()["impaired small segments"]
    whole = rows(index.built(capture))
    monkeypatch.setattr(columns, "SPILL_SIZE", 100)
    monkeypatch.setattr(walk, "SPAN_SIZE", 70_000)
    found = index.built(capture)

    firsts = found.columns["pieces.first"].tolist()
    counts = [len(found.columns[f"{part}.pieces.at"]) for part in range(len(found.spans))]
    assert len(firsts) == len(found.spans) > 3
    assert sum(count > 0 for count in counts) > 1
    assert firsts == [sum(counts[:part]) for part in range(len(counts))]
    assert rows(found) == whole


def test_an_index_by_several_processes_is_kept_as_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = tmp_path / "crowd.pcap"
    capture.write_bytes(copies(SHARE, 3))
    monkeypatch.setattr(walk, "SPAN_SIZE", 4_096)
    one, several = (index.of(capture, cache=tmp_path / str(count), processes=count) for count in (1, 3))

    assert one.sidecar is not None
    assert several.sidecar is not None
    assert len(one.spans) > 12
    assert Path(one.sidecar).read_bytes() == Path(several.sidecar).read_bytes()


def test_what_killed_runs_left_beside_a_capture_is_swept(capture: Path) -> None:
    folder = capture.parent
    names = [f".{when}.{what}.part.kwire-index" for when in ("old", "now") for what in ("file", "folder")]
    for name in names:
        if name.endswith("folder.part.kwire-index"):
            (folder / name).mkdir()
            (folder / name / "range-0").touch()
        else:
            (folder / name).touch()
    for name in names[:2]:
        os.utime(folder / name, (9, 9))
    kept = index.of(capture, cache=index.BESIDE)

    sidecar.sweep(folder)

    assert kept.sidecar is not None
    assert {file.name for file in folder.iterdir()} == {capture.name, Path(kept.sidecar).name, *names[2:]}


def test_a_build_that_fails_leaves_no_sidecar(tmp_path: Path) -> None:
    packed = tmp_path / "packed.pcap"
    packed.write_bytes(b"\x1f\x8b" + bytes(100))

    with pytest.raises(index.NotIndexed):
        index.of(packed, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
