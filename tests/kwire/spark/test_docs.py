"""The page docs/spark.md: its code runs, and it names every option and every analysis."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kwire.capture.rows.columns import LEVELS
from kwire.spark import analyses
from kwire.spark.source import options
from tests.support.captures.small_capture import write

DOCS = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


@pytest.mark.spark
def test_the_code_on_the_page_runs(spark: SparkSession, tmp_path: Path) -> None:
    for place in ("captures", "captures/2026-03-01", "captures/rolling"):
        (tmp_path / place).mkdir()
        write(tmp_path / place / "a.pcapng", "orders")
    names: dict[str, object] = {}

    for code in re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL):
        # Spark is running already, and relative paths are relative to its working directory.
        placed = code.replace('"captures', f'"{tmp_path}/captures')
        exec(compile(placed, "docs/spark.md", "exec"), names)
    for query in spark.streams.active:
        query.stop()

    assert names["rows"].count() > 0  # type: ignore[attr-defined]
    assert names["acquired"].count() == 2  # type: ignore[attr-defined]


def test_the_page_names_every_option_and_level() -> None:
    documented = {name.lower() for name in re.findall(r"`(\w+)`", DOCS)}

    known = {*options.PARSERS, *options.PLAN_PARSERS, *options.STREAM_PARSERS, *options.OWN_OPTIONS, *LEVELS}
    assert known - documented == set()


def test_the_page_names_every_analysis() -> None:
    functions = [name for name, each in inspect.getmembers(analyses, inspect.isfunction) if not name.startswith("_")]

    assert [name for name in functions if not re.search(rf"`{name}[(`]", DOCS)] == []
