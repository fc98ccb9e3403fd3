"""`kwire cache`: what it shows and what it removes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cli.main import main
from kwire.spark.indexing.index_folder import default_index_folder
from kwire.spark.java import cache_directory


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kwire"


def test_it_shows_the_folders_that_are_used(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index, java = Path(default_index_folder()), cache_directory({"XDG_CACHE_HOME": str(cache.parent)})
    (java / "abc" / "bin").mkdir(parents=True)
    (java / "abc" / "bin" / "java").write_bytes(bytes(500))
    (java / "classes-1.jsa").write_bytes(bytes(1_500_000))
    index.mkdir(parents=True)

    assert main(["cache"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert lines[0].startswith(f"0 B in 0 files: {index} (")
    assert lines[1].startswith(f"1.5 MB in 2 files: {java} (")
    assert (java / "classes-1.jsa").exists()


def test_clearing_removes_all_of_it_and_follows_no_link(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine").write_bytes(b"x")
    (cache / "java").mkdir(parents=True)
    (cache / "java" / "link").symlink_to(other)
    (cache / "java" / "classes-1.jsa").write_bytes(bytes(10))
    (cache / "index").symlink_to(other)

    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out.startswith("removed 10 B in 1 file: ")
    assert not (cache / "java").exists()
    assert (other / "mine").exists()

    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out == f"nothing in {cache}\n"
