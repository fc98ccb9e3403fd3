"""One Spark for all tests here: its start costs more than they do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import kwire.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark, as `kwire.spark.session()` starts it; its JVM ends with the tests, however they went."""
    session = kwire.spark.session("local[2]", app_name="kwire-tests", is_short=True)
    try:
        yield session
    finally:
        kwire.spark.end(session)
