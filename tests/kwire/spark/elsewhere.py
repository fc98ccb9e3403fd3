"""Programs for other Sparks: a cluster of executors, a Connect server. Each prints what it found as a line of JSON.

They are processes of their own, since a process has one Spark.
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
from kwire.capture.index.walking.walk import SPAN_SIZE
from kwire.spark import java
from tests.kwire.spark.large import write_large

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
        "is_prepared": is_prepared(spark),
        "filtered": filtered(spark, captures),
        "remote": remote(spark, captures),
        "followed": followed(spark, captures),
    }


def is_prepared(spark: SparkSession) -> bool:
    """Whether tasks that share a large file leave the index that one makes."""
    with tempfile.TemporaryDirectory() as folder:
        capture = write_large(Path(folder, "large.pcap"))
        (told,) = kwire.spark.prepare(spark, str(capture), index=folder, range_bytes=SPAN_SIZE).collect()
        expected, kept = index.built(capture), index.load(capture, index.sidecar_of(capture, folder))
        if kept is None or not told["is_indexed"] or len(list(Path(folder).iterdir())) > 2:
            return False
        return all(np.array_equal(expected.columns[name], kept.columns[name]) for name in expected.columns)


def filtered(spark: SparkSession, captures: str) -> list[int]:
    """How many rows pass a filter of ours, and one of Spark that the source takes over."""
    reader = spark.read.format("kafka_capture").option("columns", "client_id,api_name")
    ours = reader.option("filter", "api=Metadata and topic='t-ck'").load(captures)
    theirs = spark.read.format("kafka_capture").option("push_filters", "true").load(captures)
    return [ours.count(), theirs.filter("client_id = 'ck-producer'").count()]


def remote(spark: SparkSession, captures: str) -> int:
    """How many rows come through Spark and its shuffle."""
    wanted = {"filter": "api=Fetch", "columns": "file,conn_id", "across_files": "true"}
    return kwire.spark.read_remote(spark, f"file:{captures}", **wanted).count()


def followed(spark: SparkSession, captures: str) -> int:
    """How many rows a stream writes."""
    with tempfile.TemporaryDirectory() as folder:
        stream = spark.readStream.format("kafka_capture").option("state", f"{folder}/state").option("closed_after", "0")
        rows = stream.option("filter", "api=Fetch and status=ok").option("columns", "file,api_name").load(captures)
        sink = rows.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
        sink.trigger(availableNow=True).start(f"{folder}/out").awaitTermination()
        return spark.read.parquet(f"{folder}/out").count()


def cluster(captures: str) -> dict[str, object]:
    """Two executors, each a process of its own, none of which stands where the driver does."""
    spark = kwire.spark.session("local-cluster[2,1,1024]", is_short=True)
    # A local cluster leaves the folders of its executors where PySpark is installed; those of others are theirs.
    left = Path(pyspark.__file__).with_name("work") / spark.sparkContext.applicationId
    try:
        spread = spark.sparkContext.parallelize(range(8), 8).map(lambda _: os.environ["SPARK_EXECUTOR_DIRS"])
        return {"executors": spread.distinct().count(), **found(spark, captures)}
    finally:
        kwire.spark.end(spark)
        shutil.rmtree(left, ignore_errors=True)


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
