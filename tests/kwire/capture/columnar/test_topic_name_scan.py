"""Topic names by the index, compared with those of the stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.columnar.topic_name_scan import find_topic_names
from kwire.capture.options import Options
from kwire.capture.reader import collect_topic_names_from_stream
from tests.support.captures.capture_files import CAPTURES

FILES = sorted(CAPTURES.glob("*.pcap*"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_index_finds_the_same_topic_names_as_the_stream(file: Path) -> None:
    assert find_topic_names(index.open_index(file), Options()) == collect_topic_names_from_stream(file, Options())


def test_names_of_the_options_are_included() -> None:
    known = {"A" * 22: "mine"}

    names = find_topic_names(index.open_index(CAPTURES / "small_share.pcap"), Options(topics=known))

    assert names.items() > known.items()
