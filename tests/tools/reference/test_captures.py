"""The tables of docs/captures.md are those of the declarations, and none may be missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.capture.rows.columns import LEVELS
from tools.reference import captures


def test_the_page_has_the_declared_columns() -> None:
    page = captures.PAGE.read_text(encoding="utf-8")

    assert captures.render_page() == page
    for level, columns in LEVELS.items():
        section = page.split(f"### `{level}`\n")[1].split("\n#")[0]
        documented = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
        assert documented == [column.name for column in columns]


def test_a_page_without_the_table_of_a_level_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "captures.md"
    page.write_text(captures.PAGE.read_text(encoding="utf-8").replace("tools.reference`: flows", ""), encoding="utf-8")
    monkeypatch.setattr(captures, "PAGE", page)

    with pytest.raises(ValueError, match=r"captures\.md has the generated parts"):
        captures.render_page()
