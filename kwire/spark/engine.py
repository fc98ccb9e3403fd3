"""Starting Spark so that captures can be read at once: a Java, the workers' Python, the settings, the data source."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

import kwire
from kwire.spark import java
from kwire.spark.source import CaptureDataSource

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

SETTINGS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",  # A capture's times are UTC, wherever it is read.
    "spark.sql.catalogImplementation": "in-memory",  # No Hive metastore, so no derby files.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",  # The 200 of a cluster cost seconds on one machine.
}

# Half of a short job's time goes into the JVM's own compiler and collector threads. Measured on 2 busy cores: the
# report about 400 kB of captures took 13-16 s with these, 21-37 s without.
SHORT_JOB_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(
    master: str = "local[*]",
    *,
    app_name: str = "kwire",
    settings: Mapping[str, str] | None = None,
    is_short: bool = False,
) -> SparkSession:
    """A Spark session that reads `kafka_capture`; a session that runs already is taken as it is.

    Args: master: as Spark knows it, or `sc://host:port` of a Spark Connect server.
        settings: Spark properties, which win over those set here. is_short: start soon rather than run fast.
    Raises: MissingExtra when there is no Java 17 or newer.
    """
    if is_running():
        return register(SparkSession.builder.getOrCreate())
    if master.startswith("sc://"):
        return register(_configured(SparkSession.builder.remote(master), settings or {}).getOrCreate())
    local = master.startswith("local")
    builder = SparkSession.builder.master(master).appName(app_name)
    wanted = {**SETTINGS, **(_local_settings(is_short) if local else {}), **(settings or {})}
    with _environment(_launch_environment(local=local)):
        return register(_configured(builder, wanted).getOrCreate())


def _configured(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def is_running() -> bool:
    """Whether this process has a Spark already."""
    return SparkContext._active_spark_context is not None


def register(spark: SparkSession) -> SparkSession:
    """Teach a session the format `kafka_capture`; on a cluster the workers need kwire installed too."""
    if is_remote(spark):
        spark.dataSource.register(CaptureDataSource)
    else:
        with _active(spark):
            spark.dataSource.register(CaptureDataSource)
    # Spark refuses a reader that takes filters while this is off, as it is by default.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return spark


def is_remote(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect, whose JVM this process does not see."""
    return not isinstance(spark, SparkSession) or not hasattr(spark, "_jsparkSession")


def end(spark: SparkSession) -> None:
    """Stop the session and its JVM, which `spark.stop()` would keep until this process ends."""
    spark.stop()
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # The JVM watches this pipe and leaves when it closes.
        process.wait(timeout=30)
    SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make this the active session for a moment.

    Spark 4.3 refuses a format that the active session has, though it is to be registered for another one.
    """
    assert spark._jvm is not None
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _local_settings(is_short: bool) -> dict[str, str]:
    # Spark's scratch files, warehouse and artifacts would lie in the current directory otherwise.
    scratch = tempfile.mkdtemp(prefix="kwire-spark-")
    logging = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return {
        **LOCAL_SETTINGS,
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": Path(scratch, "warehouse").as_uri(),
        "spark.driver.extraJavaOptions": f"{logging} {SHORT_JOB_OPTIONS}" if is_short else logging,
    }


def _launch_environment(*, local: bool) -> dict[str, str]:
    environ = {"JAVA_HOME": str(java.find().home)}
    if local or "PYSPARK_PYTHON" not in os.environ:
        environ["PYSPARK_PYTHON"] = sys.executable  # Else the workers take the `python3` of PATH, without our packages.
    if local:
        environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        root = Path(kwire.__file__).parent.parent
        if root != Path(sysconfig.get_path("purelib")):
            # A checkout is found through this process's sys.path alone, which the workers do not inherit.
            environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    return environ


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set these variables while the JVM starts, since that is when Spark reads them; then put back what was there."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
