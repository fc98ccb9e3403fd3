"""Programs that run queries on a cluster of executors or a Connect server, and print results as a line of JSON.

They run in processes of their own, because a process has one Spark session.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyspark

import kwire.spark
from kwire.capture import index
from kwire.capture.index.scan.scanner import SPAN_SIZE
from kwire.spark import java
from tests.support.captures.large_capture import write_large

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_queries(spark: SparkSession, captures: str) -> dict[str, object]:
    """The results that the tests compare."""
    rows = spark.read.format("kafka_capture").option("task_bytes", "1").option("index", "none").load(captures)
    counts = rows.groupBy("api_name").count().collect()
    fetches = rows.filter("api_name = 'Fetch' AND NOT tls").selectExpr("parse_json(body_request):maxBytes::int AS size")
    return {
        "counts": {str(row["api_name"]): row["count"] for row in counts},
        "sizes": sorted(row["size"] for row in fetches.collect()),
        "columns": rows.columns,
        "is_prepared": is_prepared(spark),
        "filtered": filtered(spark, captures),
        "remote": remote(spark, captures),
        "followed": streamed(spark, captures),
    }


def is_prepared(spark: SparkSession) -> bool:
    """Whether several tasks build the same index of a large file as one process."""
    with tempfile.TemporaryDirectory() as folder:
        capture = write_large(Path(folder, "large.pcap"))
        (row,) = kwire.spark.prepare(spark, str(capture), index=folder, range_bytes=SPAN_SIZE).collect()
        expected, stored = index.build_index(capture), index.load_index(capture, index.sidecar_path(capture, folder))
        if stored is None or not row["is_indexed"] or len(list(Path(folder).iterdir())) > 2:
            return False
        return all(np.array_equal(expected.columns[name], stored.columns[name]) for name in expected.columns)


def filtered(spark: SparkSession, captures: str) -> list[int]:
    """The numbers of rows that pass option `filter`, and a pushed filter of Spark."""
    reader = spark.read.format("kafka_capture").option("columns", "client_id,api_name")
    by_option = reader.option("filter", "api=Metadata and topic='t-ck'").load(captures)
    by_pushdown = spark.read.format("kafka_capture").option("push_filters", "true").load(captures)
    return [by_option.count(), by_pushdown.filter("client_id = 'ck-producer'").count()]


def remote(spark: SparkSession, captures: str) -> int:
    """The number of rows read through Spark and its shuffle."""
    options = {"filter": "api=Fetch", "columns": "file,conn_id", "across_files": "true"}
    return kwire.spark.read_remote(spark, f"file:{captures}", **options).count()


def streamed(spark: SparkSession, captures: str) -> int:
    """The number of rows that a stream writes."""
    with tempfile.TemporaryDirectory() as folder:
        stream = spark.readStream.format("kafka_capture").option("state", f"{folder}/state").option("closed_after", "0")
        rows = stream.option("filter", "api=Fetch and status=ok").option("columns", "file,api_name").load(captures)
        sink = rows.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
        sink.trigger(availableNow=True).start(f"{folder}/out").awaitTermination()
        return spark.read.parquet(f"{folder}/out").count()


def cluster(captures: str) -> dict[str, object]:
    """Queries on two executors in processes of their own, with other working directories than the driver."""
    spark = kwire.spark.session("local-cluster[2,1,1024]", is_short=True)
    # A local cluster leaves the folders of its executors in the installation of PySpark: remove only our own.
    leftovers = Path(pyspark.__file__).with_name("work") / spark.sparkContext.applicationId
    try:
        folders = spark.sparkContext.parallelize(range(8), 8).map(lambda _: os.environ["SPARK_EXECUTOR_DIRS"])
        return {"executors": folders.distinct().count(), **run_queries(spark, captures)}
    finally:
        kwire.spark.end(spark)
        shutil.rmtree(leftovers, ignore_errors=True)


def connect(captures: str) -> dict[str, object]:
    """Queries on a Connect server on this machine, which PySpark starts and stops."""
    from pyspark.sql import SparkSession

    os.environ.update(JAVA_HOME=str(java.find_java().home), PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    spark = kwire.spark.register(SparkSession.builder.remote("local[2]").getOrCreate())
    try:
        return {"session": type(spark).__module__, **run_queries(spark, captures)}
    finally:
        kwire.spark.end(spark)


if __name__ == "__main__":
    print(json.dumps({"cluster": cluster, "connect": connect}[sys.argv[1]](sys.argv[2])))
