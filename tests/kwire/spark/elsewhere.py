"""Programs for other Sparks: a cluster of executors, a Connect server. Each prints what it found as a line of JSON.

They are processes of their own, since a process has one Spark.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

import kwire.spark
from kwire.spark import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def found(spark: SparkSession, captures: str) -> dict[str, object]:
    """What the tests look at."""
    rows = spark.read.format("kafka_capture").option("task_bytes", "1").option("index", "none").load(captures)
    counts = rows.groupBy("api_name").count().collect()
    fetches = rows.filter("api_name = 'Fetch' AND NOT tls").selectExpr("parse_json(body_request):maxBytes::int AS size")
    return {
        "counts": {str(row["api_name"]): row["count"] for row in counts},
        "sizes": sorted(row["size"] for row in fetches.collect()),
        "columns": rows.columns,
    }


def cluster(captures: str) -> dict[str, object]:
    """Two executors, each a process of its own, none of which stands where the driver does."""
    spark = kwire.spark.session("local-cluster[2,1,1024]", is_short=True)
    try:
        spread = spark.sparkContext.parallelize(range(8), 8).map(lambda _: os.environ["SPARK_EXECUTOR_DIRS"])
        return {"executors": spread.distinct().count(), **found(spark, captures)}
    finally:
        kwire.spark.end(spark)
        # A local cluster leaves the folders of its executors where PySpark is installed.
        shutil.rmtree(Path(pyspark.__file__).with_name("work"), ignore_errors=True)


def connect(captures: str) -> dict[str, object]:
    """A Connect server in this machine, which PySpark starts and ends."""
    from pyspark.sql import SparkSession

    os.environ.update(JAVA_HOME=str(java.find().home), PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    spark = kwire.spark.register(SparkSession.builder.remote("local[2]").getOrCreate())
    try:
        return {"session": type(spark).__module__, **found(spark, captures)}
    finally:
        kwire.spark.end(spark)


if __name__ == "__main__":
    print(json.dumps({"cluster": cluster, "connect": connect}[sys.argv[1]](sys.argv[2])))
