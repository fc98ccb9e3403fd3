"""The list of examples in docs/kip-932.md: every test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "kip-932.md"


def test_every_test_that_the_page_names_is_there_and_every_page_is_named() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in HERE.glob("test_*.py"))
    there = set(re.findall(r"^def (test_\w+)", sources, re.MULTILINE))
    rows = PAGE.read_text("utf-8").partition("as tests\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(test_\w+)`", rows))

    assert named - there == set()
    assert re.findall(r"^\| (\d{3}) ", rows, re.MULTILINE) == ["001", "000", "003", "002", "004"]
