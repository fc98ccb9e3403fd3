"""Analyses of acquisition locks: each delivery to a share member with the acknowledgement that ended it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.analyses.common import (
    RECORD,
    explode_offsets,
    is_refused,
    is_valid_range,
    micros_between,
    range_length,
)

HOLDER = (*RECORD, "member_id")
REQUEST = ("client_id", "file", "conn_id", "correlation_id")


def acknowledgements(acks: DataFrame) -> DataFrame:
    """Records by share group, member, client and kind of acknowledgement; `refused`: not accepted by the broker."""
    return (
        acks.filter(is_valid_range())
        .groupBy("group_id", "member_id", "client_id", "ack_name", is_refused().alias("refused"))
        .agg(F.sum(range_length()).alias("records"))
    )


def attempts(acquired: DataFrame, acks: DataFrame) -> DataFrame:
    """Each delivery of each record to a member, with that member's acknowledgement.

    `ack_name` is null where the member did not acknowledge, and `acquired_ts` where the capture began after the
    delivery. `held_us`: from acquisition to acknowledgement. `lock_share`: the used part of the lock at that time,
    counted from the last renewal; above 1 the acknowledgement was late. Renewals do not end a delivery. An
    acknowledgement that the broker accepted takes precedence over one that it refused.
    """
    in_order = Window.partitionBy(*HOLDER).orderBy("ts", "is_ack")
    events = _acquisitions(acquired).unionByName(_acknowledgements(acks), allowMissingColumns=True)
    acquisition = F.when(~F.col("is_ack"), 1).otherwise(0)
    deliveries = (
        events.withColumn("attempt", F.sum(acquisition).over(in_order.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*HOLDER, "attempt")
        .agg(*_delivery_columns(), *_acknowledgement_columns())
        .withColumn("ack", F.coalesce("accepted_ack", "refused_ack"))
    )
    last_renewal = F.try_element_at(F.filter("renewed", lambda ts: ts <= F.col("ack.ts")), F.lit(-1))
    lock_from = F.greatest("acquired_ts", last_renewal)
    held = deliveries.withColumn("ack_ts", F.col("ack.ts")).withColumn("lock_from", lock_from)
    timeout_us = F.col("lock_timeout_ms").cast("bigint") * F.lit(1000)
    return held.select(
        *(*HOLDER, "client_id", "delivery_count", "acquired_ts", "lock_timeout_ms"),
        F.size("renewed").alias("renewals"),
        "ack_ts",
        F.col("ack.ack_name").alias("ack_name"),
        F.col("ack.error_name").alias("ack_error"),
        micros_between(F.col("acquired_ts"), F.col("ack_ts")).alias("held_us"),
        F.try_divide(micros_between(F.col("lock_from"), F.col("ack_ts")), timeout_us).alias("lock_share"),
        F.coalesce("ack.file", "file").alias("file"),
        F.col("ack.conn_id").alias("conn_id"),
        F.col("ack.correlation_id").alias("correlation_id"),
        "resp_packet",
        F.col("ack.req_packet").alias("req_packet"),
    )


def lock_times(deliveries: DataFrame) -> DataFrame:
    """Records that were acquired together and acknowledged together, with the time in between.

    Deliveries without an acknowledgement, and those acquired before the capture began, are excluded.

    Args: deliveries: the result of `attempts`.
    """
    together = [
        *("group_id", "topic", "partition", "member_id", "client_id", "delivery_count", "acquired_ts", "ack_ts"),
        *("ack_name", "ack_error", "lock_timeout_ms", "renewals", "held_us", "lock_share"),
        *("file", "conn_id", "correlation_id", "resp_packet", "req_packet"),
    ]
    return (
        deliveries.filter(F.col("held_us").isNotNull())
        .groupBy(*together)
        .agg(F.min("offset").alias("first_offset"), F.max("offset").alias("last_offset"), F.count("*").alias("records"))
    )


def lock_use(held: DataFrame) -> DataFrame:
    """For each member: how long it held records, its renewals, and its late and refused acknowledgements.

    `ranges`: how many times the percentiles are made of, one for each row of `lock_times`.

    Args: held: the result of `lock_times`.
    """
    return held.groupBy("group_id", "member_id").agg(
        F.first("client_id", ignorenulls=True).alias("client_id"),
        F.sum("records").alias("records"),
        F.count("*").alias("ranges"),
        F.percentile_approx("held_us", 0.5, 1_000).alias("p50_us"),
        F.percentile_approx("held_us", 0.95, 1_000).alias("p95_us"),
        F.max("held_us").alias("max_us"),
        F.max("lock_timeout_ms").alias("lock_timeout_ms"),
        F.sum(F.col("renewals") * F.col("records")).alias("renewals"),
        F.sum(F.when(F.col("lock_share") > 1, F.col("records")).otherwise(0)).alias("late"),
        F.sum(F.when(F.col("ack_error").isNotNull(), F.col("records")).otherwise(0)).alias("refused"),
    )


def delivery_histories(deliveries: DataFrame, chosen: DataFrame) -> DataFrame:
    """The deliveries of chosen records, across members.

    Args: deliveries: the result of `attempts`. chosen: records by group, topic, partition and offset.
    """
    return deliveries.join(chosen.select(*RECORD), list(RECORD), "left_semi")


def _acquisitions(acquired: DataFrame) -> DataFrame:
    count = F.col("delivery_count").cast("int").alias("delivery_count")
    is_ack, refused = F.lit(False).alias("is_ack"), F.lit(False).alias("refused")
    columns = (*HOLDER, *REQUEST, "ts", "lock_timeout_ms", "resp_packet")
    return explode_offsets(acquired).select(*columns, count, is_ack, refused)


def _acknowledgements(acks: DataFrame) -> DataFrame:
    refused, error_name = is_refused().alias("refused"), F.when(is_refused(), F.col("error_name")).alias("error_name")
    columns = (*HOLDER, *REQUEST, "ts", "ack_name", "req_packet")
    return explode_offsets(acks).select(*columns, error_name, F.lit(True).alias("is_ack"), refused)


def _delivery_columns() -> list[Column]:
    return [
        F.first("client_id", ignorenulls=True).alias("client_id"),
        F.min(F.when(~F.col("is_ack"), F.col("ts"))).alias("acquired_ts"),
        F.max("delivery_count").alias("delivery_count"),
        F.max("lock_timeout_ms").alias("lock_timeout_ms"),
        F.max(F.when(~F.col("is_ack"), F.col("file"))).alias("file"),
        F.max("resp_packet").alias("resp_packet"),
    ]


def _acknowledgement_columns() -> list[Column]:
    ack = F.struct("ts", "ack_name", "error_name", "file", "conn_id", "correlation_id", "req_packet")
    is_renewal = F.col("ack_name") == "renew"
    is_final = F.col("is_ack") & ~is_renewal
    is_accepted, is_rejected = is_final & ~F.col("refused"), is_final & F.col("refused")
    return [
        F.min_by(F.when(is_accepted, ack), F.when(is_accepted, F.col("ts"))).alias("accepted_ack"),
        F.min_by(F.when(is_rejected, ack), F.when(is_rejected, F.col("ts"))).alias("refused_ack"),
        F.array_sort(F.collect_list(F.when(is_renewal & ~F.col("refused"), F.col("ts")))).alias("renewed"),
    ]
