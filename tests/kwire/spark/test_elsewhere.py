"""The same rows come from a cluster of executors, and through Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kwire

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
CAPTURES = ROOT / "tests" / "captures"
#: A task each, on executors that start a Python each.
SOME = "small_[cs]*.pcap"


def told_by(program: str) -> dict[str, Any]:
    """What a program of `elsewhere` prints."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    # Our own program, with our own captures.
    done = subprocess.run(
        [sys.executable, "-m", "tests.kwire.spark.elsewhere", program, str(CAPTURES / SOME)],
        capture_output=True,
        text=True,
        timeout=540,
        cwd=ROOT,
        env=environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def expected() -> dict[str, Any]:
    table = kwire.read_capture(sorted(CAPTURES.glob(SOME)))
    rows = table.to_pylist()
    fetches = [row for row in rows if row["api_name"] == "Fetch"]
    asked = [row for row in rows if row["api_name"] == "Metadata"]
    named = [row for row in asked if '"t-ck"' in f"{row['body_request']}{row['body_response']}"]
    assert 0 < len(named) < len(asked)
    return {
        "filtered": [len(named), sum(row["client_id"] == "ck-producer" for row in rows)],
        "remote": len(fetches),
        "followed": sum(row["status"] == "ok" for row in fetches),
        "counts": dict(Counter(str(row["api_name"]) for row in rows)),
        "sizes": sorted(json.loads(row["body_request"])["maxBytes"] for row in fetches),
        "columns": table.column_names,
        "is_prepared": True,
    }


def test_a_cluster_of_executors_gives_the_rows() -> None:
    told = told_by("cluster")

    assert told.pop("executors") == 2
    assert told == expected()


def test_spark_connect_gives_the_rows() -> None:
    pytest.importorskip("grpc")

    told = told_by("connect")

    assert told.pop("session").startswith("pyspark.sql.connect.")
    assert told == expected()
