"""Write a report page, or a comparison page, from capture files: the work of `kwire report` on a running Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from kwire.report import diff_page, page
from kwire.report.build import Progress, build_report
from kwire.report.diff import Changes, compare_reports
from kwire.report.levels import Decoded
from kwire.report.model import Report


def write_report(
    spark: SparkSession,
    files: Sequence[str],
    output: Path,
    *,
    options: Mapping[str, str] | None = None,
    progress: Progress = lambda step: None,
    parquet: str | None = None,
    decoded: Decoded | None = None,
) -> Report:
    """Compute the report of these captures and write its page.

    Args: options: options of `kafka_capture`, as ports or edition. progress: called with the name of each step.
        parquet: a folder to write the tables to as well. decoded: the result of `decode_levels`, if it was called.
    Returns: the numbers that the page shows.
    """
    report = build_report(spark, files, options=options, progress=progress, parquet=parquet, decoded=decoded)
    progress("writing the page")
    output.write_text(page.render_report(report), encoding="utf-8")
    return report


def write_changes(
    spark: SparkSession,
    before: Sequence[str],
    after: Sequence[str],
    output: Path,
    *,
    options: Mapping[str, str] | None = None,
    progress: Progress = lambda step: None,
    decoded: Sequence[Decoded | None] = (None, None),
) -> Changes:
    """Compute the changes from some captures to others, and write their page.

    Args: options, progress: as of `write_report`. decoded: of both sides. Returns: the changes that the page shows.
    """
    reports = [
        build_report(spark, files, options=options, progress=progress, decoded=levels)
        for files, levels in zip((before, after), decoded, strict=True)
    ]
    changes = compare_reports(*reports)
    progress("writing the page")
    output.write_text(diff_page.render_changes(changes), encoding="utf-8")
    return changes
