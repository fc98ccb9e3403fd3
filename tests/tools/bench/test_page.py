"""Sections of the performance page are replaced; the other text is not changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bench.page import markdown_table, write_section


def test_a_section_is_appended_once_and_replaced_after_that(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "performance.md"
    write_section("one", "old", page)
    write_section("two", "kept", page)

    write_section("one", "new\n", page)

    text = page.read_text()
    assert "<!-- one:begin -->\nnew\n<!-- one:end -->\n\n<!-- two:begin -->\nkept\n<!-- two:end -->\n" in text
    assert "old" not in text
    assert text.startswith("# Performance\n")


def test_a_section_without_its_end_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("<!-- one:begin -->\nand so on")

    with pytest.raises(ValueError, match="without <!-- one:end -->"):
        write_section("one", "new", page)
    assert page.read_text() == "<!-- one:begin -->\nand so on"


def test_a_table_has_its_numbers_on_the_right() -> None:
    assert markdown_table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"
