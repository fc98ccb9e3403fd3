"""Writes sections of docs/performance.md: each benchmark replaces the text between its two markers."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path

from tools.bench.history import Result, append_results

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
_HEAD = """# Performance

Measured by `python -m tools.bench.NAME`, which writes its section here. Times depend on the machine; compare the
ratios.

Each run also appends its results to `docs/performance-history.jsonl`: a JSON line for each case and peer with commit,
date, machine, versions, median, least, most and ratio. `make bench-compare BASE=COMMIT` measures kwire and mockbroker
of two commits in turns, in separate processes. A line has moved if the ranges of the rounds do not overlap and the
medians differ by more than 5 %.

<!-- targets:begin -->
<!-- targets:end -->
"""


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    """Replace the text between `<!-- name:begin -->` and `<!-- name:end -->`; a new section is appended."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    old = page.read_text(encoding="utf-8") if page.exists() else _HEAD
    section = f"{begin}\n{text.strip()}\n{end}"
    before, found, rest = old.partition(begin)
    _, is_whole, after = rest.partition(end)
    if found and not is_whole:
        raise ValueError(f"{page}: {begin} without {end}")
    page.parent.mkdir(exist_ok=True)
    page.write_text(f"{before}{section}{after}" if found else f"{old.rstrip()}\n\n{section}\n", encoding="utf-8")


def publish_section(name: str, text: str, results: Sequence[Result], *, write: bool) -> None:
    """Print a section; write it into the page, and its results into the history, if requested."""
    print(text)
    if write:
        write_section(name, text)
        append_results(name, results, describe_machine())


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def describe_machine() -> str:
    """A short description of the machine, for the line below a table."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python}, {os.cpu_count()} CPUs, {platform.machine()}"


def spread_text(values: Sequence[float], digits: int = 0) -> str:
    """Median, minimum and maximum of measured values, with this many decimals."""
    return f"{statistics.median(values):,.{digits}f} [{min(values):,.{digits}f} … {max(values):,.{digits}f}]"
