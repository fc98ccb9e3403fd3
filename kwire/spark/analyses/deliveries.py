"""Analyses of share-group deliveries: delivery counts, redeliveries, and the outcome of each record."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.analyses.common import (
    DELIVERY_COUNT_LIMIT,
    RECORD,
    explode_offsets,
    is_refused,
    is_valid_range,
    range_length,
    time_bin,
    topic_or_id,
)

# How many bytes of a record's key and value are returned.
CONTENT_BYTES_MAX = 200


def delivery_counts(acquired: DataFrame) -> DataFrame:
    """For each record of each share group: how often it was acquired, and its highest delivery count.

    The two differ where the capture began late, or where the broker took back an acquisition without counting it.
    """
    return _deliveries(acquired).select(*RECORD, "deliveries", "delivery_count_max")


def deliveries_by_count(acquired: DataFrame) -> DataFrame:
    """Records acquired in each share group with each delivery count; 2 and above are redeliveries."""
    return (
        acquired.filter(is_valid_range())
        .groupBy("group_id", F.col("delivery_count").cast("int").alias("delivery_count"))
        .agg(F.sum(range_length()).alias("records"))
    )


def deliveries_over_time(acquired: DataFrame, *, start_us: int, step_us: int) -> DataFrame:
    """Records delivered in time bins of `step_us`; `name` is their delivery count as text, "1" for first deliveries."""
    name = F.greatest(F.col("delivery_count").cast("int"), F.lit(1)).cast("string")
    valid = acquired.filter(is_valid_range() & F.col("ts").isNotNull())
    by_bin = valid.groupBy(name.alias("name"), time_bin(F.col("ts"), start_us, step_us))
    return by_bin.agg(F.sum(range_length()).alias("count"))


def redeliveries(counts: DataFrame) -> DataFrame:
    """For each partition of each share group: acquisitions, records, and records acquired again.

    Args: counts: the result of `delivery_counts` or `outcomes`.
    """
    is_redelivered = (F.col("deliveries") > 1) | (F.col("delivery_count_max") > 1)
    return counts.groupBy("group_id", "topic", "partition").agg(
        F.sum("deliveries").alias("acquisitions"),
        F.count("*").alias("records"),
        F.count_if(is_redelivered).alias("redelivered"),
        F.max("delivery_count_max").alias("delivery_count_max"),
    )


def last_acknowledgements(acks: DataFrame) -> DataFrame:
    """For each record of each share group: the last acknowledgement that the broker accepted, renewals excluded."""
    newest = Window.partitionBy(*RECORD).orderBy(F.col("ts").desc(), F.col("correlation_id").desc())
    return (
        explode_offsets(acks.filter(~is_refused() & (F.col("ack_name") != "renew")))
        .withColumn("newest", F.row_number().over(newest))
        .filter(F.col("newest") == 1)
        .select(*RECORD, "ack_name", "member_id", "ts")
    )


def outcomes(acquired: DataFrame, acks: DataFrame, *, delivery_count_limit: int = DELIVERY_COUNT_LIMIT) -> DataFrame:
    """The outcome of each delivered record, as far as the capture shows it; `resp_packet`: its last acquisition.

    `outcome` is accepted, rejected, gap, exhausted (at the delivery limit, and none of these), released, or open.
    """
    # An acknowledgement of an earlier delivery does not count for the latest one.
    ack_name = F.when(F.col("ts") >= F.col("last_acquired_ts"), F.col("ack_name"))
    is_exhausted = F.col("delivery_count_max") >= delivery_count_limit
    return (
        _deliveries(acquired)
        .join(last_acknowledgements(acks), list(RECORD), "left")
        .withColumn(
            "outcome",
            F.when(ack_name == "accept", "accepted")
            .when(ack_name == "reject", "rejected")
            .when(ack_name == "gap", "gap")
            .when(is_exhausted, "exhausted")
            .when(ack_name == "release", "released")
            .otherwise("open"),
        )
        .select(*RECORD, "deliveries", "delivery_count_max", "outcome", "member_id", "members", "file", "resp_packet")
    )


def archived(acquired: DataFrame, acks: DataFrame, *, delivery_count_limit: int = DELIVERY_COUNT_LIMIT) -> DataFrame:
    """The records that are archived without being accepted: rejected, or exhausted at the delivery limit."""
    records = outcomes(acquired, acks, delivery_count_limit=delivery_count_limit)
    return records.filter(F.col("outcome").isin("rejected", "exhausted"))


def poison_records(records: DataFrame, *, deliveries_min: int = 3) -> DataFrame:
    """The records that consumers fail to process: rejected, exhausted, or acquired at least `deliveries_min` times.

    Args: records: the result of `outcomes`.
    """
    is_archived = F.col("outcome").isin("rejected", "exhausted")
    is_redelivered = F.greatest("deliveries", "delivery_count_max") >= deliveries_min
    return records.filter(is_archived | is_redelivered)


def dead_letters(records: DataFrame) -> DataFrame:
    """The records that a dead-letter queue holds, by share group, topic and reason: how many, and which offsets.

    Each record counts once, however often its dead letter was produced and fetched. Args: records: the level `records`.
    """
    group = ("dlq_group_id", "dlq_topic", "dlq_reason")
    columns = {name: name.removeprefix("dlq_") for name in group}
    return (
        records.filter(F.col("dlq_group_id").isNotNull())
        .withColumnRenamed("topic", "queue")
        .dropDuplicates([*group, "dlq_partition", "dlq_offset"])
        .groupBy(*group, "queue")
        .agg(
            F.count("*").alias("records"),
            F.min("dlq_offset").alias("first_offset"),
            F.max("dlq_offset").alias("last_offset"),
            F.max("dlq_delivery_count").alias("delivery_count_max"),
        )
        .withColumnsRenamed(columns)
    )


def contents(records: DataFrame, chosen: DataFrame) -> DataFrame:
    """Key and value of chosen records as share consumers received them, cut to `CONTENT_BYTES_MAX` bytes.

    Args: records: the level `records`, read with its payload. chosen: records by topic, partition and offset, as
        the result of `poison_records`.
    """
    key = list(RECORD[1:])
    columns = {name: F.substring(name, 1, CONTENT_BYTES_MAX) for name in ("key", "value")}
    fetched = records.filter((F.col("direction") == "share_fetch") & F.col("offset").isNotNull())
    return (
        fetched.withColumn("topic", topic_or_id())
        .join(chosen.select(*key).distinct(), key, "left_semi")
        .withColumns(columns)
        .select(*key, "key_size", "value_size", "key", "value")
        .dropDuplicates(key)
    )


def _deliveries(acquired: DataFrame) -> DataFrame:
    return (
        explode_offsets(acquired)
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
