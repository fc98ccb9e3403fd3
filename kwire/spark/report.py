"""The report page, from capture files to a file: what `kwire report` does once Spark runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from kwire.spark import page
from kwire.spark.gather import Progress, gather
from kwire.spark.model import Report


def write(
    spark: SparkSession,
    files: Sequence[str],
    output: Path,
    *,
    options: Mapping[str, str] | None = None,
    progress: Progress = lambda step: None,
) -> Report:
    """Compute the report about these captures and write its page.

    Args: options: options of `kafka_capture`, as ports or edition. progress: is told each step as it begins.
    Returns: the numbers that the page shows.
    """
    report = gather(spark, files, options=options, progress=progress)
    progress("writing the page")
    output.write_text(page.render(report), encoding="utf-8")
    return report
