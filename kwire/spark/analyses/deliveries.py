"""What share groups were handed, how often, and what became of it."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.analyses.common import (
    DELIVERY_COUNT_LIMIT,
    RECORD,
    bin_of,
    each_offset,
    is_sane,
    length,
    refused,
    topic_or_id,
)

# What is shown of the content of one record.
CONTENT_BYTES_MAX = 200


def delivery_counts(acquired: DataFrame) -> DataFrame:
    """For each record of each share group: how often it was handed out, and the highest delivery count told.

    The two differ where the capture began late, or where an attempt was taken back without being counted.
    """
    return _deliveries(acquired).select(*RECORD, "deliveries", "delivery_count_max")


def deliveries_by_count(acquired: DataFrame) -> DataFrame:
    """Records handed out in each share group with each delivery count; 2 and above are redeliveries."""
    return (
        acquired.filter(is_sane())
        .groupBy("group_id", F.col("delivery_count").cast("int").alias("delivery_count"))
        .agg(F.sum(length()).alias("records"))
    )


def deliveries_over_time(acquired: DataFrame, *, start_us: int, step_us: int) -> DataFrame:
    """Records handed out in spans of `step_us`, those for the `first time` apart from those `again`."""
    name = F.when(F.col("delivery_count") > 1, "again").otherwise("first time")
    sane = acquired.filter(is_sane() & F.col("ts").isNotNull())
    return sane.groupBy(name.alias("name"), bin_of(F.col("ts"), start_us, step_us)).agg(F.sum(length()).alias("count"))


def redeliveries(counts: DataFrame) -> DataFrame:
    """For each partition of each share group: hand-outs, records, and those handed out again.

    Args: counts: what `delivery_counts` or `outcomes` gives.
    """
    again = (F.col("deliveries") > 1) | (F.col("delivery_count_max") > 1)
    return counts.groupBy("group_id", "topic", "partition").agg(
        F.sum("deliveries").alias("acquisitions"),
        F.count("*").alias("records"),
        F.count_if(again).alias("redelivered"),
        F.max("delivery_count_max").alias("delivery_count_max"),
    )


def last_acknowledgements(acks: DataFrame) -> DataFrame:
    """For each record of each share group: the last final word on it that the broker took (renewals are not final)."""
    newest = Window.partitionBy(*RECORD).orderBy(F.col("ts").desc(), F.col("correlation_id").desc())
    return (
        each_offset(acks.filter(~refused() & (F.col("ack_name") != "renew")))
        .withColumn("newest", F.row_number().over(newest))
        .filter(F.col("newest") == 1)
        .select(*RECORD, "ack_name", "member_id", "ts")
    )


def outcomes(acquired: DataFrame, acks: DataFrame, *, delivery_count_limit: int = DELIVERY_COUNT_LIMIT) -> DataFrame:
    """What became of each delivered record, as far as the capture tells; `resp_packet` handed it out last.

    `outcome` is accepted, rejected, gap, exhausted (at the delivery limit, and none of these), released, or open.
    """
    # A word on an earlier delivery says nothing about the latest one.
    told = F.when(F.col("ts") >= F.col("last_acquired_ts"), F.col("ack_name"))
    spent = F.col("delivery_count_max") >= delivery_count_limit
    return (
        _deliveries(acquired)
        .join(last_acknowledgements(acks), list(RECORD), "left")
        .withColumn(
            "outcome",
            F.when(told == "accept", "accepted")
            .when(told == "reject", "rejected")
            .when(told == "gap", "gap")
            .when(spent, "exhausted")
            .when(told == "release", "released")
            .otherwise("open"),
        )
        .select(*RECORD, "deliveries", "delivery_count_max", "outcome", "member_id", "members", "file", "resp_packet")
    )


def archived(acquired: DataFrame, acks: DataFrame, *, delivery_count_limit: int = DELIVERY_COUNT_LIMIT) -> DataFrame:
    """The records that nobody will be given again though nobody accepted them: rejected, or exhausted at the limit."""
    fates = outcomes(acquired, acks, delivery_count_limit=delivery_count_limit)
    return fates.filter(F.col("outcome").isin("rejected", "exhausted"))


def poison_records(fates: DataFrame, *, deliveries_min: int = 3) -> DataFrame:
    """The records that consumers do not get done with: given up, or handed out `deliveries_min` times and more.

    Args: fates: what `outcomes` gives.
    """
    given_up = F.col("outcome").isin("rejected", "exhausted")
    again = F.greatest("deliveries", "delivery_count_max") >= deliveries_min
    return fates.filter(given_up | again)


def contents(records: DataFrame, chosen: DataFrame) -> DataFrame:
    """Key and value of chosen records as share consumers were given them, cut to `CONTENT_BYTES_MAX` bytes.

    Args: records: the level `records`, read with its payload. chosen: records by topic, partition and offset, as
        `poison_records`.
    """
    place = list(RECORD[1:])
    cut = {name: F.substring(name, 1, CONTENT_BYTES_MAX) for name in ("key", "value")}
    given = records.filter((F.col("direction") == "share_fetch") & F.col("offset").isNotNull())
    return (
        given.withColumn("topic", topic_or_id())
        .join(chosen.select(*place).distinct(), place, "left_semi")
        .withColumns(cut)
        .select(*place, "key_size", "value_size", "key", "value")
        .dropDuplicates(place)
    )


def _deliveries(acquired: DataFrame) -> DataFrame:
    return (
        each_offset(acquired)
        .groupBy(*RECORD)
        .agg(
            F.count("*").cast("int").alias("deliveries"),
            F.max("delivery_count").cast("int").alias("delivery_count_max"),
            F.max("ts").alias("last_acquired_ts"),
            F.count_distinct("member_id").cast("int").alias("members"),
            F.max_by("file", "ts").alias("file"),
            F.max_by("resp_packet", "ts").alias("resp_packet"),
        )
    )
