"""A program that follows a folder into Parquet, a folder for each batch, and kills itself where that is asked."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import kwire.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main(folder: Path, moment: str) -> None:
    """Args: moment: of the second batch, `reading` after a first row, `written` when its rows are out; or `never`."""
    spark = kwire.spark.session("local[2]", is_short=True)

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
    kwire.spark.end(spark)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
