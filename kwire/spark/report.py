"""The report page, from capture files to a file: what `kwire report` does once Spark runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from kwire.spark import changepage, page
from kwire.spark.changes import Changes, compare
from kwire.spark.gather import Progress, gather
from kwire.spark.model import Report


def write(
    spark: SparkSession,
    files: Sequence[str],
    output: Path,
    *,
    options: Mapping[str, str] | None = None,
    progress: Progress = lambda step: None,
    parquet: str | None = None,
) -> Report:
    """Compute the report about these captures and write its page.

    Args: options: options of `kafka_capture`, as ports or edition. progress: is told each step as it begins.
        parquet: a folder that the tables are written to as well.
    Returns: the numbers that the page shows.
    """
    report = gather(spark, files, options=options, progress=progress, parquet=parquet)
    progress("writing the page")
    output.write_text(page.render(report), encoding="utf-8")
    return report


def write_changes(
    spark: SparkSession,
    before: Sequence[str],
    after: Sequence[str],
    output: Path,
    *,
    options: Mapping[str, str] | None = None,
    progress: Progress = lambda step: None,
) -> Changes:
    """Compute what changed from some captures to others, and write its page.

    Args: options, progress: as of `write`. Returns: the changes that the page shows.
    """
    reports = [gather(spark, files, options=options, progress=progress) for files in (before, after)]
    changes = compare(*reports)
    progress("writing the page")
    output.write_text(changepage.render(changes), encoding="utf-8")
    return changes
