"""Captures in Spark: a session that needs no set-up, the data source `kafka_capture`, ready analyses, a report page."""

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
    """A Spark session that reads `kafka_capture`: finds or brings a Java, and sets what is needed.

    Args: settings: Spark properties that win over ours. A session that runs already is taken as it is.
        is_short: the session is for seconds of work, so that starting soon counts more than running fast.
    Raises: MissingExtra when PySpark, or a Java 17 or newer, is not there.
    """
    require()
    from kwire.spark import engine

    return engine.session(master, app_name=app_name, settings=settings, is_short=is_short)


def register(spark: SparkSession) -> SparkSession:
    """Teach a session of your own the format `kafka_capture`; on a cluster the workers need kwire installed too."""
    require()
    from kwire.spark import engine

    return engine.register(spark)


def prepare(
    spark: SparkSession, names: str | Iterable[str], *, index: str, range_bytes: int = 1 << 30, walk: bool = False
) -> DataFrame:
    """Index captures by the executors, before queries that then find the sidecars. The rows say what was found.

    Args: index: as the option of that name, `beside` or a folder that driver and executors see. range_bytes: what one
    task reads; a file of two such ranges or more is cut. walk: the driver goes over the records of such a file and says
    where ranges begin; else each task guesses it, and what was guessed wrong is read again.
    """
    require()
    from kwire.spark import preparing

    return preparing.prepare(
        spark, [names] if isinstance(names, str) else list(names), index, range_bytes=range_bytes, walk=walk
    )


def read_remote(spark: SparkSession, names: str | Iterable[str], **options: str) -> DataFrame:
    """The rows of captures in any place that Spark reads, as `s3a://bucket/captures/*.pcap`: their bytes go through it.

    Args: options: those of `kafka_capture`, as text.
    """
    require()
    from kwire.spark import remote

    return remote.read_remote(spark, names, options)


def end(spark: SparkSession) -> None:
    """Stop the session and its JVM, which `spark.stop()` would keep until this process ends."""
    from kwire.spark import engine

    engine.end(spark)


def require() -> None:
    """MissingExtra, which names the install command, unless PySpark and pyarrow are there."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingExtra("Spark", "spark") from error
