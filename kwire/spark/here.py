"""Levels of small captures, decoded in this process: to start Python workers for them costs more than decoding."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from kwire.capture import arrow
from kwire.spark import options as parsed
from kwire.spark.source import CaptureDataSource


def table(files: Sequence[str], options: Mapping[str, str]) -> pa.Table:
    """The rows of a level, as the data source gives them. Args: options: those of `kafka_capture`, `level` too."""
    source = CaptureDataSource({**options, "paths": json.dumps(list(files))})
    reader = source.reader(source.schema())
    found = chain.from_iterable(map(reader.read, reader.partitions()))
    whole = arrow.schema(parsed.level(options))
    return pa.Table.from_batches(found, pa.schema([whole.field(name) for name in parsed.columns(options)]))


def frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The same as a DataFrame."""
    if not rows.num_rows:
        return spark.createDataFrame([], from_arrow_schema(rows.schema))  # PySpark 4.3 cannot make it of no batch.
    return spark.createDataFrame(rows)
