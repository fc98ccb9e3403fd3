"""Sidecars: an index read from its sidecar equals the one that was written; an invalid sidecar is not used."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.index import sidecar
from kwire.capture.index.scan import scanner
from kwire.capture.reader import read_flow_batches
from tests.support.capture_model.indexed_segments import read_segments
from tests.support.captures.capture_files import SHARE, build_interface, build_secrets, build_section
from tests.support.captures.index_captures import FILES, batch_rows, copy_connections

pytestmark = pytest.mark.slow


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A copy of a capture, which may be changed."""
    return Path(shutil.copy(SHARE, tmp_path / "share.pcap"))


def rows(found_index: index.Index) -> list[dict[str, object]]:
    return batch_rows(read_flow_batches([found_index], None))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_index_read_from_its_sidecar_has_the_same_rows(path: Path, tmp_path: Path) -> None:
    built = index.build_index(path)
    index.write_sidecar(built, tmp_path / "index")
    found = index.load_index(path, tmp_path / "index")

    assert found is not None
    assert found.flows == built.flows
    assert list(read_segments([found])) == list(read_segments([built]))
    assert rows(found) == rows(built)


def test_the_second_reader_uses_the_sidecar_of_the_first(capture: Path) -> None:
    first = index.open_index(capture, cache=index.BESIDE)
    sidecar = index.sidecar_path(capture, index.BESIDE)
    written = sidecar.stat().st_mtime_ns
    second = index.open_index(capture, cache=index.BESIDE)

    assert sidecar.stat().st_mtime_ns == written
    assert first.sidecar == second.sidecar == str(sidecar)
    assert rows(first) == rows(second)


def test_captures_of_one_name_have_different_sidecars_in_a_folder(tmp_path: Path) -> None:
    places = {index.sidecar_path(tmp_path / folder / "a.pcap", tmp_path / "cache") for folder in ("one", "two")}

    assert len(places) == 2
    assert {each.parent for each in places} == {tmp_path / "cache"}


def test_a_folder_that_cannot_be_created_is_no_error(capture: Path) -> None:
    assert index.open_index(capture, cache=capture / "no folder").sidecar is None


def test_a_changed_capture_is_indexed_again(capture: Path) -> None:
    sidecar = index.sidecar_path(capture, index.BESIDE)
    index.write_sidecar(index.build_index(capture), sidecar)
    status = capture.stat()

    os.utime(capture, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert index.load_index(capture, sidecar) is None
    os.utime(capture, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert index.load_index(capture, sidecar) is not None
    with capture.open("ab") as file:
        file.write(b"more")
    os.utime(capture, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert index.load_index(capture, sidecar) is None


def test_the_sidecar_of_another_capture_of_the_same_size_and_time_is_not_used(capture: Path) -> None:
    sidecar = index.sidecar_path(capture, index.BESIDE)
    index.write_sidecar(index.build_index(capture), sidecar)
    status = capture.stat()
    data = bytearray(capture.read_bytes())
    data[-1] ^= 1
    capture.write_bytes(data)
    os.utime(capture, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert index.load_index(capture, sidecar) is None


def test_a_damaged_sidecar_is_not_used(capture: Path) -> None:
    sidecar = index.sidecar_path(capture, index.BESIDE)
    index.write_sidecar(index.build_index(capture), sidecar)
    good = sidecar.read_bytes()

    for place in range(0, len(good), max(len(good) // 60, 1)):
        bad = bytearray(good)
        bad[place] ^= 0x55
        sidecar.write_bytes(bad)
        found = index.load_index(capture, sidecar)
        # Padding bytes between columns may change.
        assert found is None or rows(found) == rows(index.build_index(capture)), place
    for size in (0, 5, 20, len(good) // 2, len(good) - 1):
        sidecar.write_bytes(good[:size])
        assert index.load_index(capture, sidecar) is None


@pytest.mark.parametrize("order", ["<", ">"])
def test_secrets_are_read_from_the_capture_and_never_stored_in_the_sidecar(tmp_path: Path, order: str) -> None:
    secrets = [f"CLIENT_RANDOM {byte * 32} {byte * 48}" for byte in ("a1", "b2")]
    first, second = (build_secrets(each, order) for each in secrets)
    capture = tmp_path / "tls.pcapng"
    capture.write_bytes(build_section(order) + first + build_interface(order) + second)

    found = index.open_index(capture, cache=index.BESIDE)

    assert found.sidecar is not None
    written = Path(found.sidecar).read_bytes()
    assert b"CLIENT_RANDOM" not in written
    assert not any(each.encode() in written for each in ("a1" * 32, "b2" * 48))
    assert found.secrets == "\n".join(secrets)
    assert len(found.key_log()) == 2
    assert index.build_index(capture.read_bytes()).secrets == found.secrets


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_sidecar_has_the_permissions_of_its_capture(capture: Path, tmp_path: Path, mode: int) -> None:
    capture.chmod(mode)
    umask = os.umask(0)
    try:
        found = index.open_index(capture, cache=tmp_path / "built_index" / "cache")
    finally:
        os.umask(umask)

    assert found.sidecar is not None
    assert stat.S_IMODE(os.stat(found.sidecar).st_mode) == mode
    assert stat.S_IMODE((tmp_path / "built_index" / "cache").stat().st_mode) == 0o700


def test_the_file_that_a_killed_process_leaves_is_partial(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "replace", lambda *names: names)
    index.write_sidecar(index.build_index(capture), index.sidecar_path(capture, index.BESIDE))

    (left,) = (file for file in capture.parent.iterdir() if file != capture)
    assert left.name.startswith(".")
    assert left.name.endswith(".part.kwire-index")


def test_an_index_is_pickled_as_the_name_of_its_sidecar(capture: Path) -> None:
    stored = index.open_index(capture, cache=index.BESIDE)
    alone = index.build_index(capture)

    assert len(pickle.dumps(stored)) < 1000
    assert rows(pickle.loads(pickle.dumps(stored))) == rows(pickle.loads(pickle.dumps(alone))) == rows(alone)


def test_several_processes_write_the_same_sidecar_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = tmp_path / "crowd.pcap"
    capture.write_bytes(copy_connections(SHARE, 3))
    monkeypatch.setattr(scanner, "SPAN_SIZE", 4_096)
    one, several = (index.open_index(capture, cache=tmp_path / str(count), processes=count) for count in (1, 3))

    assert one.sidecar is not None
    assert several.sidecar is not None
    assert len(one.spans) > 12
    assert Path(one.sidecar).read_bytes() == Path(several.sidecar).read_bytes()


def test_leftovers_of_killed_processes_are_deleted(capture: Path) -> None:
    folder = capture.parent
    names = [f".{age}.{kind}.part.kwire-index" for age in ("old", "now") for kind in ("file", "folder")]
    for old_or_new in (names[:2], names[2:]):
        (folder / old_or_new[0]).touch()
        (folder / old_or_new[1]).mkdir()
        (folder / old_or_new[1] / "range-0").touch()
    for name in names[:2]:
        os.utime(folder / name, (9, 9))
    stored = index.open_index(capture, cache=index.BESIDE)

    sidecar.delete_leftovers(folder)

    assert stored.sidecar is not None
    assert {file.name for file in folder.iterdir()} == {capture.name, Path(stored.sidecar).name, *names[2:]}


def test_a_build_that_fails_leaves_no_sidecar(tmp_path: Path) -> None:
    packed = tmp_path / "packed.pcap"
    packed.write_bytes(b"\x1f\x8b" + bytes(100))

    with pytest.raises(index.NotIndexed):
        index.open_index(packed, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
