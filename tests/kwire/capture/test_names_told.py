"""The names of topics by the index: those that decoding everything finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.lane.names import names_told
from kwire.capture.options import Options
from kwire.capture.topic_map import names_in

CAPTURES = Path(__file__).parents[2] / "captures"
FILES = sorted(CAPTURES.glob("*.pcap*"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_index_finds_the_names_that_decoding_everything_finds(file: Path) -> None:
    assert names_told(index.of(file), Options()) == names_in([str(file)], Options())


def test_names_that_are_known_beforehand_stay() -> None:
    known = {"A" * 22: "mine"}

    told = names_told(index.of(CAPTURES / "small_share.pcap"), Options(topics=known))

    assert told.items() > known.items()
