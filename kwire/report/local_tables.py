"""Levels of small captures, decoded in this process: starting Python workers would cost more than decoding."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kwire.capture.rows.columns import arrow_schema
from kwire.spark.data_source import CaptureDataSource
from kwire.spark.source import options as option_parsers


def read_table(files: Sequence[str], options: Mapping[str, str]) -> pa.Table:
    """The rows of a level, as the data source returns them. Args: options: those of `kafka_capture`, `level` too."""
    source = CaptureDataSource({**options, "paths": json.dumps(list(files))})
    reader = source.reader(source.schema())
    batches = chain.from_iterable(map(reader.read, reader.partitions()))
    level_schema = arrow_schema(option_parsers.parse_level(options))
    schema = pa.schema([level_schema.field(name) for name in option_parsers.parse_columns(options)])
    return pa.Table.from_batches(batches, schema)


def to_data_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """An Arrow table as a DataFrame of one partition, so that no query on it has to shuffle rows."""
    if not rows.num_rows:
        # PySpark 4.3 cannot convert a table without batches, and starts a Python worker for an empty list of rows.
        return spark.createDataFrame(_null_row(rows.schema)).limit(0)
    return spark.createDataFrame(rows).coalesce(1)


def _null_row(schema: pa.Schema) -> pa.Table:
    nullable = [column.with_nullable(True) for column in schema]
    return pa.Table.from_arrays([pa.nulls(1, column.type) for column in nullable], schema=pa.schema(nullable))
