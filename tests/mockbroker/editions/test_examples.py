"""The list of examples in docs/kip-932.md: every test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = Path(__file__).parents[3] / "docs" / "kip-932.md"


def test_every_test_that_the_page_names_exists_and_every_revision_is_named() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    existing = set(re.findall(r"^def (test_\w+)", sources, re.MULTILINE))
    rows = PAGE.read_text("utf-8").partition("as tests\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(test_\w+)`", rows))

    assert named - existing == set()
    assert re.findall(r"^\| (r\d) ", rows, re.MULTILINE) == ["r1", "r2", "r3", "r4", "r5"]
