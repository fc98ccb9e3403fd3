"""Start of a Spark session that can read captures: Java, the workers' Python, settings, the data source."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

import kwire
from kwire.errors import MissingExtra
from kwire.spark import class_archive, java
from kwire.spark.data_source import CaptureDataSource
from kwire.spark.source.pushdown import HAS_FILTERS

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

SETTINGS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",  # A capture's times are UTC, wherever it is read.
    "spark.sql.catalogImplementation": "in-memory",  # No Hive metastore, so no derby files.
    # How long the JVM waits for Python to fetch collected rows: its 15 s are too short on a machine that is overloaded.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",  # The 200 of a cluster cost seconds on one machine.
}

# The JVM's own compiler and collector threads take half of the time of a short job. Measured on 2 busy cores: the
# report about 400 kB of captures took 13-16 s with these, 21-37 s without. With one compiler, the JVM reserves only
# 48 MB for compiled code: a session of some hundred queries fills it, after which it compiles nothing, then exits.
SHORT_JOB_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=192m"

# The maximum time until the JVM has exited, seconds; writing its classes to an archive takes some of it.
_EXIT_TIMEOUT_S = 120


def session(
    master: str = "local[*]",
    *,
    app_name: str = "kwire",
    settings: Mapping[str, str] | None = None,
    is_short: bool = False,
    java_options: str = "",
) -> SparkSession:
    """A Spark session that reads `kafka_capture`; a running session is returned unchanged.

    Args: as of `start`. Raises: MissingExtra when no Java 17 or newer is found.
    """
    return register(start(master, app_name=app_name, settings=settings, is_short=is_short, java_options=java_options))


def start(
    master: str = "local[*]",
    *,
    app_name: str = "kwire",
    settings: Mapping[str, str] | None = None,
    is_short: bool = False,
    java_options: str = "",
) -> SparkSession:
    """The session without the format, for which Spark starts a Python worker; `register` adds it.

    Args: master: Spark's master URL, or `sc://host:port` of a Spark Connect server.
        settings: Spark properties, which override the defaults. is_short: optimize for a fast start.
        java_options: more options of the JVM of a local session.
    Raises: MissingExtra when no Java 17 or newer is found.
    """
    if is_running():
        return SparkSession.builder.getOrCreate()
    if master.startswith("sc://"):
        _require_connect()
        return _with_settings(SparkSession.builder.remote(master), settings or {}).getOrCreate()
    local = master.startswith("local")
    builder = SparkSession.builder.master(master).appName(app_name)
    found_java = java.find_java()
    archive = class_archive.find_archive(found_java)
    all_options = [
        SHORT_JOB_OPTIONS if is_short else "",
        archive.reading_options() if archive is not None else "",
        java_options,
    ]
    spark_settings = {
        **SETTINGS,
        **(_local_settings(" ".join(filter(None, all_options))) if local else {}),
        **(settings or {}),
    }
    with _environment_variables(_launch_environment(found_java, local=local)):
        return _with_settings(builder, spark_settings).getOrCreate()


def _require_connect() -> None:
    """Raises: MissingExtra without the packages of Spark Connect, of which PySpark names one after the other."""
    if None in [find_spec(name) for name in ("grpc", "grpc_status", "google")]:
        raise MissingExtra("Spark Connect", "spark-connect")


def _with_settings(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def is_running() -> bool:
    """Whether this process has a running Spark session."""
    return SparkContext._active_spark_context is not None


def register(spark: SparkSession) -> SparkSession:
    """Register the format `kafka_capture` with a session; on a cluster the workers need kwire installed too."""
    if is_remote(spark):
        spark.dataSource.register(CaptureDataSource)
    else:
        with _as_active_session(spark):
            spark.dataSource.register(CaptureDataSource)
    # Spark refuses a reader that accepts filters while this is off, which is the default.
    if HAS_FILTERS:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return spark


def is_remote(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect, whose JVM is not accessible from this process."""
    return not isinstance(spark, SparkSession) or not hasattr(spark, "_jsparkSession")


def is_local(spark: SparkSession) -> bool:
    """Whether the session computes on this machine: not in a cluster, nor in one that this machine imitates."""
    return not is_remote(spark) and str(spark.conf.get("spark.master")).split("[")[0] == "local"


def end(spark: SparkSession) -> None:
    """Stop the session and its JVM, which `spark.stop()` alone would leave running until this process ends."""
    spark.stop()
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # The JVM exits when this pipe closes.
        process.wait(timeout=_EXIT_TIMEOUT_S)
    SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _as_active_session(spark: SparkSession) -> Iterator[None]:
    """Make this the active session within the context.

    Spark 4.3 refuses to register a format that the active session already has, even for another session.
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


def _local_settings(java_options: str) -> dict[str, str]:
    # Otherwise Spark writes scratch files, warehouse and artifacts into the current directory.
    scratch = tempfile.mkdtemp(prefix="kwire-spark-")
    logging = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return {
        **LOCAL_SETTINGS,
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": Path(scratch, "warehouse").as_uri(),
        "spark.driver.extraJavaOptions": f"{logging} {java_options}",
    }


def _launch_environment(found_java: java.Java, *, local: bool) -> dict[str, str]:
    environ = {"JAVA_HOME": str(found_java.home)}
    if local or "PYSPARK_PYTHON" not in os.environ:
        environ["PYSPARK_PYTHON"] = sys.executable  # Else the workers use the `python3` of PATH, which may lack kwire.
    if local:
        environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        root = Path(kwire.__file__).parent.parent
        if root != Path(sysconfig.get_path("purelib")):
            # A checkout is importable only through this process's sys.path, which the workers do not inherit.
            environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    return environ


@contextmanager
def _environment_variables(changes: Mapping[str, str]) -> Iterator[None]:
    """Set these variables while the JVM starts, because Spark reads them then; restore the old values afterwards."""
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
