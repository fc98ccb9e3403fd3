"""Sessions on a cluster of executors and through Spark Connect return the rows of the library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kwire
from kwire.errors import MissingExtra
from kwire.spark import class_archive, java, spark_session
from kwire.spark.spark_session import SHORT_JOB_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
CAPTURES = ROOT / "tests" / "captures"
#: One task for each file, on executors that each start a Python process.
PATTERN = "small_[cs]*.pcap"


#: Compiled code of all Spark tests in one session, bytes, with as much again: 47 MB were in use after half of them.
CODE_CACHE_MIN = 96 << 20


def test_a_short_session_has_memory_for_the_compiled_code_of_many_queries(spark: SparkSession) -> None:
    """A JVM with a full code cache compiles nothing more, and ends when it needs a method handle."""
    assert spark._jvm is not None
    pools = spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()

    sizes = {pool.getName(): pool.getUsage().getMax() for pool in pools if pool.getName().startswith("Code")}

    assert sizes, [pool.getName() for pool in pools]
    assert sum(sizes.values()) >= CODE_CACHE_MIN


def run_program(program: str) -> dict[str, Any]:
    """The results that a program of `remote_spark` prints."""
    # Without the optimizing compiler all JVMs together need a quarter of the time; stored classes save a quarter more.
    archive = class_archive.find_archive(java.find_java())
    java_options = f"{SHORT_JOB_OPTIONS} {archive.reading_options() if archive is not None else ''}"
    options = {"JAVA_TOOL_OPTIONS": java_options, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "tests.support.spark.remote_spark", program, str(CAPTURES / PATTERN)]
    environ = {**os.environ, **options}
    completed = subprocess.run(command, capture_output=True, text=True, timeout=540, cwd=ROOT, env=environ, check=False)
    assert completed.returncode == 0, completed.stderr[-4000:]
    results: dict[str, Any] = json.loads(completed.stdout.splitlines()[-1])
    return results


def expected() -> dict[str, Any]:
    table = kwire.read_capture(sorted(CAPTURES.glob(PATTERN)))
    rows = table.to_pylist()
    fetches = [row for row in rows if row["api_name"] == "Fetch"]
    metadata = [row for row in rows if row["api_name"] == "Metadata"]
    matching = [row for row in metadata if '"t-ck"' in f"{row['body_request']}{row['body_response']}"]
    assert 0 < len(matching) < len(metadata)
    return {
        "filtered": [len(matching), sum(row["client_id"] == "ck-producer" for row in rows)],
        "remote": len(fetches),
        "followed": sum(row["status"] == "ok" for row in fetches),
        "counts": dict(Counter(str(row["api_name"]) for row in rows)),
        "sizes": sorted(json.loads(row["body_request"])["maxBytes"] for row in fetches),
        "columns": table.column_names,
        "is_prepared": True,
    }


def test_a_cluster_of_executors_gives_the_rows() -> None:
    results = run_program("cluster")

    assert results.pop("executors") == 2
    assert results == expected()


def test_spark_connect_gives_the_rows() -> None:
    pytest.importorskip("grpc")

    results = run_program("connect")

    assert results.pop("session").startswith("pyspark.sql.connect.")
    assert results == expected()


def test_spark_connect_without_its_packages_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "is_running", lambda: False)
    monkeypatch.setattr(spark_session, "find_spec", lambda name: None if name == "grpc_status" else object())

    with pytest.raises(MissingExtra, match=r"pip install .*\[spark-connect\]"):
        spark_session.start("sc://127.0.0.1:1")
