"""Fixtures: one Spark session and one browser for the whole test process, because starting them is slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import kwire.spark
from tests.support import needs
from tests.support.spark.browser import Browser, browser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark as `kwire.spark.session()` starts it; its JVM is stopped after the tests."""
    session = kwire.spark.session("local[2]", app_name="kwire-tests", is_short=True)
    try:
        yield session
    finally:
        kwire.spark.end(session)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser tab, with a profile of its own."""
    with browser(
        needs.tool("chromium", "chromium-browser", "google-chrome"), tmp_path_factory.mktemp("profile")
    ) as tab:
        yield tab
