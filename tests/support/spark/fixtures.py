"""Fixtures: one Spark session and one browser for the whole test process, because starting them is slow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import kwire.spark
from tests.support import needs
from tests.support.browser import Browser, browser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark with the settings of `kwire report`; its JVM is stopped after the tests.

    Tests of documentation, clusters and programs start sessions of their own, with the defaults.
    """
    # Here, since they need PySpark, which an installation without Spark lacks.
    from kwire.cli.report import SETTINGS
    from kwire.report.collect_tables import SMALL_SETTINGS

    settings = {**SMALL_SETTINGS, **SETTINGS}
    session = kwire.spark.session("local[2]", app_name="kwire-tests", is_short=True, settings=settings)
    try:
        yield session
    finally:
        kwire.spark.end(session)


def describe_ended_jvm() -> str | None:
    """How the JVM of the session ended, if it did: its next test fails, and each one after it, for that reason."""
    spark_context = sys.modules.get("pyspark.core.context")
    gateway = spark_context.SparkContext._gateway if spark_context is not None else None
    code = gateway.proc.poll() if gateway is not None and hasattr(gateway, "proc") else None
    return None if code is None else f"the JVM of the Spark session ended with exit code {code}"


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser tab, with a profile of its own."""
    with browser(
        needs.tool("chromium", "chromium-browser", "google-chrome"), tmp_path_factory.mktemp("profile")
    ) as tab:
        yield tab
