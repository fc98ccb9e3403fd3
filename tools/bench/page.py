"""Put measured tables into docs/performance.md: each benchmark owns what lies between its two markers."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
_HEAD = """# Performance

Measured by `python -m tools.bench.NAME`, which writes its own section here. Times are of the machine that ran it; the
ratios are what carries over.
"""


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    """Replace what is between `<!-- name:begin -->` and `<!-- name:end -->`; a new section is appended."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    old = page.read_text(encoding="utf-8") if page.exists() else _HEAD
    section = f"{begin}\n{text.strip()}\n{end}"
    before, found, rest = old.partition(begin)
    if found:
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"{page}: {begin} without {end}")
        new = f"{before}{section}{after}"
    else:
        new = f"{old.rstrip()}\n\n{section}\n"
    page.parent.mkdir(exist_ok=True)
    page.write_text(new, encoding="utf-8")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def machine() -> str:
    """The machine in a few words, for the line under a table."""
    return (
        f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} CPUs, {platform.machine()}"
    )
