"""The pictures of the pages are what the commands print today, small, and show every column where it stands."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.pictures import live_page
from tools.pictures.__main__ import FOLDER, GENERATED, PICTURES, printed
from tools.pictures.svg import TextSpan, draw, text_spans

ROOT = Path(__file__).parents[3]
SIZE_MAX = 150 * 1024
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_its_command_prints_today(name: str) -> None:
    path = FOLDER / f"{name}.svg"

    assert draw(PICTURES[name], printed(PICTURES[name]), GENERATED) == path.read_text("utf-8"), (
        "python -m tools.pictures"
    )
    assert path.stat().st_size < SIZE_MAX
    assert GENERATED in path.read_text("utf-8").splitlines()[0]


def test_every_picture_is_on_a_page_and_none_is_left_over() -> None:
    shown = set(re.findall(r"\(pictures/(\w+)\.svg\)", (ROOT / "docs" / "captures.md").read_text("utf-8")))

    assert shown == set(PICTURES) == {path.stem for path in FOLDER.glob("*.svg")}
    assert {path.name for path in FOLDER.glob("*.png")} == {live_page.PICTURE.name}
    assert f"(pictures/{live_page.PICTURE.name})" in (ROOT / "docs" / "live-page.md").read_text("utf-8")


def test_stretches_stand_at_the_columns_of_their_text() -> None:
    line = "\x1b[2mé日\x1b[0m plain \x1b[1;31mbad\x1b[0m"

    assert list(text_spans(line)) == [TextSpan(0, "é日", "d"), TextSpan(3, " plain ", ""), TextSpan(10, "bad", "b r")]


def test_text_is_only_text() -> None:
    drawn = ElementTree.fromstring(draw("kwire <x>", "a & <script>  b", "made"))

    assert [each.text for each in drawn.iter(f"{SVG}text")] == ["$", "kwire <x>", "a & <script>", "b"]
