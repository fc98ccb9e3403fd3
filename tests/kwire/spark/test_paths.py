"""Resolution of names given to `load()` or `kwire report` to files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.spark import paths


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    for name in ("b.pcap", "a.pcapng", "notes.txt", "sub/c.pcap", "x[1].pcap", "with,comma.cap", "b.pcap.kwire-index"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
    return tmp_path


def names(files: list[str]) -> list[str]:
    return [Path(file).name for file in files]


def test_a_directory_means_the_captures_in_it(captures: Path) -> None:
    assert names(paths.expand_names([str(captures)])) == ["a.pcapng", "b.pcap", "with,comma.cap", "x[1].pcap"]


def test_a_pattern_may_match_files_in_subfolders(captures: Path) -> None:
    assert names(paths.expand_names([f"{captures}/*.pcap"])) == ["b.pcap", "x[1].pcap"]
    assert names(paths.expand_names([f"{captures}/**/c.pcap"])) == ["c.pcap"]


def test_an_index_next_to_its_capture_is_no_capture(captures: Path) -> None:
    assert names(paths.expand_names([f"{captures}/b*"])) == ["b.pcap"]


def test_compressed_captures_belong_to_a_directory(tmp_path: Path) -> None:
    for name in ("a.pcap.gz", "b.pcapng.zst", "c.zst"):
        (tmp_path / name).touch()

    assert names(paths.expand_names([str(tmp_path)])) == ["a.pcap.gz", "b.pcapng.zst"]


@pytest.mark.parametrize("name", ["100%25.pcap", "one#two?three.pcap", "two words.pcap", "größe.pcap"])
def test_a_file_url_may_be_percent_encoded_or_plain(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()

    assert paths.expand_names([f"file:{tmp_path}/{name}"]) == [str(tmp_path / name)]
    assert paths.expand_names([(tmp_path / name).as_uri()]) == [str(tmp_path / name)]


def test_an_existing_file_is_never_taken_for_a_pattern(captures: Path) -> None:
    assert names(paths.expand_names([f"{captures}/x[1].pcap", f"{captures}/notes.txt"])) == ["x[1].pcap", "notes.txt"]


def test_a_file_named_twice_is_read_once_and_the_order_is_kept(captures: Path) -> None:
    assert names(paths.expand_names([f"{captures}/b.pcap", str(captures)]))[:2] == ["b.pcap", "a.pcapng"]


def test_a_file_url_is_a_path(captures: Path) -> None:
    assert paths.expand_names([(captures / "b.pcap").as_uri()]) == [str(captures / "b.pcap")]


@pytest.mark.parametrize(
    "name", ["missing.pcap", "*.nothing", "s3://bucket/a.pcap", "hdfs:/a.pcap", "file://elsewhere/a.pcap"]
)
def test_a_name_without_a_file_is_an_error_that_names_it(captures: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match=name.replace("*", r"\*")):
        paths.expand_names([name])


def test_a_password_in_a_name_is_not_shown() -> None:
    with pytest.raises(FileNotFoundError, match=r"'s3a://me:\*\*\*@bucket/a.pcap'") as error:
        paths.expand_names(["s3a://me:hunter2@bucket/a.pcap"])

    assert "hunter2" not in str(error.value)


def test_the_error_for_a_relative_name_has_the_working_directory() -> None:
    with pytest.raises(FileNotFoundError, match=f"'nothing.pcap' in {Path.cwd()}"):
        paths.expand_names(["nothing.pcap"])


def test_no_name_at_all_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="no capture file was named"):
        paths.expand_names([])


def test_spark_passes_one_name_or_several() -> None:
    assert paths.load_names({"path": "a,b.pcap"}) == ["a,b.pcap"]
    assert paths.load_names({"paths": '["a", "b,c"]'}) == ["a", "b,c"]
    assert paths.load_names({"level": "messages"}) == []
