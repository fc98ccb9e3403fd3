"""Recordings of two releases: no copy of equal answers, and no answers lost when one release is recorded again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conversations.recordings import Recordings


@pytest.fixture
def recordings(tmp_path: Path) -> Recordings:
    return Recordings(tmp_path / "scripts", tmp_path / "releases", ".json", json.dumps)


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*.json"))


def test_equal_answers_of_two_releases_are_one_file(recordings: Recordings, tmp_path: Path) -> None:
    recordings.store("a", "4.4", [1])
    recordings.store("a", "4.3", [1])

    assert files(tmp_path) == ["scripts/a.json"]
    assert recordings.read("a", "4.3") == recordings.read("a", "4.4") == [1]


def test_an_earlier_release_has_a_file_only_while_its_answers_differ(recordings: Recordings, tmp_path: Path) -> None:
    recordings.store("a", "4.4", [1])
    recordings.store("a", "4.3", [2])

    assert files(tmp_path) == ["releases/4.3/a.json", "scripts/a.json"]
    assert (recordings.read("a", "4.3"), recordings.read("a", "4.4")) == ([2], [1])

    recordings.store("a", "4.4", [2])

    assert files(tmp_path) == ["scripts/a.json"]


def test_the_answers_of_the_earlier_release_remain_when_the_newer_one_is_recorded(recordings: Recordings) -> None:
    recordings.store("a", "4.4", [1])
    recordings.store("a", "4.4", [2])

    assert (recordings.read("a", "4.3"), recordings.read("a", "4.4")) == ([1], [2])


def test_a_name_of_the_newer_release_alone_has_no_answers_of_the_earlier_one(
    recordings: Recordings, tmp_path: Path
) -> None:
    recordings.store("a", "4.4", [1], releases=("4.4",))
    recordings.store("a", "4.4", [2], releases=("4.4",))

    assert files(tmp_path) == ["scripts/a.json"]


def test_answers_that_were_never_recorded_are_an_error(recordings: Recordings) -> None:
    recordings.store("a", "4.3", [1])

    with pytest.raises(LookupError, match=r"a is not recorded with 4\.4"):
        recordings.read("a", "4.4")
