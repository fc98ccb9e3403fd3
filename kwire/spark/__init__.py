"""Spark integration: a session without set-up, the data source `kafka_capture`, and ready analyses of captures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kwire.errors import MissingExtra

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["end", "prepare", "read_remote", "register", "require", "session"]


def session(
    master: str = "local[*]",
    *,
    app_name: str = "kwire",
    settings: Mapping[str, str] | None = None,
    is_short: bool = False,
) -> SparkSession:
    """A Spark session that reads `kafka_capture`, with Java found or provided and all settings made.

    Args: settings: Spark properties that override the defaults. A running session is returned unchanged.
        is_short: optimize for a fast start rather than throughput, for seconds of work.
    Raises: MissingExtra when PySpark, or Java 17 or newer, is not installed.
    """
    require()
    from kwire.spark import spark_session

    return spark_session.session(master, app_name=app_name, settings=settings, is_short=is_short)


def register(spark: SparkSession) -> SparkSession:
    """Register the format `kafka_capture` with a session; on a cluster the workers need kwire installed too."""
    require()
    from kwire.spark import spark_session

    return spark_session.register(spark)


def prepare(
    spark: SparkSession, names: str | Iterable[str], *, index: str, range_bytes: int = 1 << 30, walk: bool = False
) -> DataFrame:
    """Build the indexes of captures on the executors; later queries use the sidecars. Returns a row for each file.

    Args: index: as the option of that name, `beside` or a folder that driver and executors can access. range_bytes: how
        much one task reads; a file of at least two such ranges is split. walk: the driver walks the records of such a
        file and determines where ranges begin; else each task guesses, and wrongly guessed ranges are read again.
    """
    require()
    from kwire.spark.indexing import distributed_indexing

    return distributed_indexing.prepare_indexes(
        spark, [names] if isinstance(names, str) else list(names), index, range_bytes=range_bytes, walk=walk
    )


def read_remote(spark: SparkSession, names: str | Iterable[str], **options: str) -> DataFrame:
    """The rows of captures on any file system of Spark, as `s3a://bucket/captures/*.pcap`, read through Spark.

    Args: options: those of `kafka_capture`, as text.
    """
    require()
    from kwire.spark.source import remote_files

    return remote_files.read_remote(spark, names, options)


def end(spark: SparkSession) -> None:
    """Stop the session and its JVM, which `spark.stop()` alone would leave running until this process ends."""
    from kwire.spark import spark_session

    spark_session.end(spark)


def require() -> None:
    """Raise MissingExtra, which names the install command, unless PySpark and pyarrow are installed."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingExtra("Spark", "spark") from error
