"""A program that streams a folder into Parquet, one folder per batch, and kills itself at a given moment."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import kwire.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def stream_folder(spark: SparkSession, folder: Path, moment: str = "") -> None:
    """Stream `in` to `out` below the folder until all files are read.

    Args: moment: in the second batch, kill this process after a first row (`reading`) or after its rows (`written`).
    """

    def write(rows: DataFrame, number: int) -> None:
        if number == 1 and moment == "reading":
            rows.take(1)
            os.kill(os.getpid(), signal.SIGKILL)
        rows.write.mode("overwrite").parquet(str(folder / "out" / str(number)))
        if number == 1 and moment == "written":
            os.kill(os.getpid(), signal.SIGKILL)

    stream = spark.readStream.format("kafka_capture").option("state", str(folder / "state"))
    rows = stream.option("maxFilesPerTrigger", "1").load(str(folder / "in"))
    sink = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    sink.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    stream_folder(kwire.spark.session("local[2]", is_short=True), Path(sys.argv[1]), sys.argv[2])
