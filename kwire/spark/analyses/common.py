"""What the analyses share: keys, spans of time, ranges of offsets, what waits on purpose."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

# Offsets come from the wire, and one row may claim 2^62 of them. Kafka gives out at most
# `group.share.partition.max.record.locks` (range up to 10,000) records of a partition at a time.
RANGE_RECORDS_MAX = 100_000

# Kafka's default of `group.share.delivery.count.limit`.
DELIVERY_COUNT_LIMIT = 5

RECORD = ("group_id", "topic", "partition", "offset")
CONNECTION = ("file", "conn_id", "stream_epoch")


def binned(rows: DataFrame, moment: Column, name: str, start_us: int, step_us: int) -> DataFrame:
    """Rows by `name` in spans of time: columns `name`, `bin` and `count`."""
    return rows.groupBy(F.col(name).alias("name"), bin_of(moment, start_us, step_us)).agg(F.count("*").alias("count"))


def bin_of(moment: Column, start_us: int, step_us: int) -> Column:
    """Which span of `step_us` from `start_us` on a time lies in, as `bin`; null for one far from all."""
    return F.floor((F.unix_micros(moment) - start_us) / step_us).try_cast("int").alias("bin")


def micros_between(start: Column, end: Column) -> Column:
    """Microseconds from one time to another."""
    return F.unix_micros(end) - F.unix_micros(start)


def refused() -> Column:
    """Whether the broker did not take an acknowledgement."""
    return F.coalesce(F.col("error_code") != 0, F.lit(False))


def length() -> Column:
    """Records in a range of offsets; null where a hostile range does not fit 64 bits."""
    # `try_` gives null; the plain operators would end the whole job.
    return F.try_add(F.try_subtract(F.col("last_offset"), F.col("first_offset")), F.lit(1))


def is_sane() -> Column:
    """Whether a broker could have told a range of offsets."""
    return (F.col("first_offset") >= 0) & length().between(1, RANGE_RECORDS_MAX)


def topic_or_id() -> Column:
    """The topic's name; one that the capture never names goes by its id."""
    return F.coalesce("topic", "topic_id")


def each_offset(ranges: DataFrame) -> DataFrame:
    """One row for each offset."""
    return (
        ranges.filter(is_sane())
        .withColumn("offset", F.explode(F.sequence("first_offset", "last_offset")))
        .withColumn("topic", topic_or_id())
    )
