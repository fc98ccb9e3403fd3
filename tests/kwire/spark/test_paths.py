"""Which files a name given to `load()` or `kwire report` means."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.spark import paths


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    for name in ("b.pcap", "a.pcapng", "notes.txt", "sub/c.pcap", "x[1].pcap", "with,comma.cap"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
    return tmp_path


def names(files: list[str]) -> list[str]:
    return [Path(file).name for file in files]


def test_a_directory_means_the_captures_in_it(captures: Path) -> None:
    assert names(paths.expand([str(captures)])) == ["a.pcapng", "b.pcap", "with,comma.cap", "x[1].pcap"]


def test_a_pattern_means_what_it_matches_and_may_go_deep(captures: Path) -> None:
    assert names(paths.expand([f"{captures}/*.pcap"])) == ["b.pcap", "x[1].pcap"]
    assert names(paths.expand([f"{captures}/**/c.pcap"])) == ["c.pcap"]


def test_a_file_is_itself_whatever_its_name_looks_like(captures: Path) -> None:
    assert names(paths.expand([f"{captures}/x[1].pcap", f"{captures}/notes.txt"])) == ["x[1].pcap", "notes.txt"]


def test_a_file_named_twice_is_read_once_and_the_order_is_kept(captures: Path) -> None:
    assert names(paths.expand([f"{captures}/b.pcap", str(captures)]))[:2] == ["b.pcap", "a.pcapng"]


def test_a_file_address_is_a_path(captures: Path) -> None:
    assert paths.expand([(captures / "b.pcap").as_uri()]) == [str(captures / "b.pcap")]


@pytest.mark.parametrize("name", ["missing.pcap", "*.nothing", "s3://bucket/a.pcap", "file://elsewhere/a.pcap"])
def test_a_name_without_a_file_is_an_error_that_says_it(captures: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match=name.replace("*", r"\*")):
        paths.expand([name])


def test_a_relative_name_without_a_file_tells_where_it_was_looked_for() -> None:
    with pytest.raises(FileNotFoundError, match=f"'nothing.pcap' in {Path.cwd()}"):
        paths.expand(["nothing.pcap"])


def test_no_name_at_all_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="no capture file was named"):
        paths.expand([])


def test_spark_hands_over_one_name_or_several() -> None:
    assert paths.named_in({"path": "a,b.pcap"}) == ["a,b.pcap"]
    assert paths.named_in({"paths": '["a", "b,c"]'}) == ["a", "b,c"]
    assert paths.named_in({"level": "messages"}) == []
