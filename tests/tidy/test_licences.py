"""Files that are shipped beside the code are the project's own: docs/dependencies.md says so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Kinds of files that can have no code, font or picture of others in them unnoticed.
_KINDS = {".css", ".html", ".js", ".json", ".properties", ".py", ".pyi", ".tsv", ".typed", ".c", ".h"}
_OWNED_BY_OTHERS = re.compile(
    r"copyright|\(c\) \d{4}|@license|@preserve|SPDX-|@font-face|https?://(?!127\.0\.0\.1|localhost)[^\s\"']*\.(?:js|css|woff2?)",
    re.IGNORECASE,
)
_LINE_MAX = 2_000


def _shipped() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "kwire", "mockbroker"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.splitlines()]


def test_only_kinds_of_files_are_shipped_that_can_be_read() -> None:
    files = _shipped()

    assert len(files) > 500
    assert [str(file.relative_to(ROOT)) for file in files if file.suffix not in _KINDS] == []


def test_no_asset_names_another_owner_or_is_minified() -> None:
    assets = [file for file in _shipped() if file.suffix in {".css", ".html", ".js"}]
    texts = {file.relative_to(ROOT): file.read_text(encoding="utf-8") for file in assets}

    assert len(texts) > 15
    assert [str(file) for file, text in texts.items() if _OWNED_BY_OTHERS.search(text)] == []
    assert [str(file) for file, text in texts.items() if max(map(len, text.splitlines())) > _LINE_MAX] == []
