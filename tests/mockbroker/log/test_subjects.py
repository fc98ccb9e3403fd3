"""The loggers and fields of the log, and the page that lists them."""

from __future__ import annotations

import re
from pathlib import Path

from mockbroker.log import subjects
from mockbroker.log.subject_log import SubjectLog

_ROOT = Path(__file__).parents[3]
_PAGE = (_ROOT / "docs" / "mockbroker.md").read_text(encoding="utf-8")
_SECTION = _PAGE.partition("### The log\n")[2].partition("\n## ")[0]


def test_the_page_lists_every_logger_and_no_other() -> None:
    loggers = {value.logger.name for value in vars(subjects).values() if isinstance(value, SubjectLog)}

    assert set(re.findall(r"^\| `(mockbroker\.\w+)` \|", _SECTION, re.MULTILINE)) == loggers


def test_the_page_lists_the_fields_that_texts_of_lines_name() -> None:
    used = set()
    for path in (_ROOT / "mockbroker").rglob("*.py"):
        used |= set(re.findall(r"%\((\w+)\)[.\d]*[sdrf]", path.read_text(encoding="utf-8")))

    documented = set(re.findall(r"`(\w+)`", _SECTION))
    assert {"topic", "client", "latency_ms"} < used
    assert used - {"name"} <= documented
