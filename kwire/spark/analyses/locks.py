"""How share members used the time for which records were theirs: each delivery with the word that ended it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.analyses.common import RECORD, each_offset, is_sane, length, micros_between, refused

HOLDER = (*RECORD, "member_id")
ABOUT = ("client_id", "file", "conn_id", "correlation_id")


def acknowledgements(acks: DataFrame) -> DataFrame:
    """Records by share group, member, client and kind of acknowledgement; `refused`: not taken by the broker."""
    return (
        acks.filter(is_sane())
        .groupBy("group_id", "member_id", "client_id", "ack_name", refused().alias("refused"))
        .agg(F.sum(length()).alias("records"))
    )


def attempts(acquired: DataFrame, acks: DataFrame) -> DataFrame:
    """Each delivery of each record to a member, and that member's word on it: the life of a record, line by line.

    `ack_name` is null where the member never said anything, and `acquired_ts` where the capture began later than the
    delivery. `held_us` is from acquisition to word; `lock_share` is how much of the lock was used up by then, counted
    from the last renewal: above 1 the word came late. Renewals do not end a delivery. A word that the broker took
    counts before one that it refused.
    """
    numbered = Window.partitionBy(*HOLDER).orderBy("ts", "is_word")
    events = _given(acquired).unionByName(_words(acks))
    is_given = F.when(~F.col("is_word"), 1).otherwise(0)
    found = (
        events.withColumn("attempt", F.sum(is_given).over(numbered.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*HOLDER, "attempt")
        .agg(*_of_the_delivery(), *_of_the_word())
        .withColumn("word", F.coalesce("taken", "not_taken"))
    )
    lock_from = F.greatest(
        "acquired_ts", F.try_element_at(F.filter("renewed", lambda ts: ts <= F.col("word.ts")), F.lit(-1))
    )
    held = found.withColumn("ack_ts", F.col("word.ts")).withColumn("lock_from", lock_from)
    timeout_us = F.col("lock_timeout_ms").cast("bigint") * F.lit(1000)
    return held.select(
        *HOLDER,
        "client_id",
        "delivery_count",
        "acquired_ts",
        "lock_timeout_ms",
        F.size("renewed").alias("renewals"),
        "ack_ts",
        F.col("word.ack_name").alias("ack_name"),
        F.col("word.error_name").alias("ack_error"),
        micros_between(F.col("acquired_ts"), F.col("ack_ts")).alias("held_us"),
        F.try_divide(micros_between(F.col("lock_from"), F.col("ack_ts")), timeout_us).alias("lock_share"),
        F.coalesce("word.file", "file").alias("file"),
        F.col("word.conn_id").alias("conn_id"),
        F.col("word.correlation_id").alias("correlation_id"),
        "resp_packet",
        F.col("word.req_packet").alias("req_packet"),
    )


def lock_times(tried: DataFrame) -> DataFrame:
    """Runs of records that were handed out together and acknowledged together, with how long that took.

    Deliveries without a word, or whose beginning is not in the capture, are left out.

    Args: tried: what `attempts` gives.
    """
    together = [
        *("group_id", "topic", "partition", "member_id", "client_id", "delivery_count", "acquired_ts", "ack_ts"),
        *("ack_name", "ack_error", "lock_timeout_ms", "renewals", "held_us", "lock_share"),
        *("file", "conn_id", "correlation_id", "resp_packet", "req_packet"),
    ]
    return (
        tried.filter(F.col("held_us").isNotNull())
        .groupBy(*together)
        .agg(F.min("offset").alias("first_offset"), F.max("offset").alias("last_offset"), F.count("*").alias("records"))
    )


def lock_use(held: DataFrame) -> DataFrame:
    """For each member: how long it held records until its word, how often it renewed, how often it was late or refused.

    Args: held: what `lock_times` gives.
    """
    return held.groupBy("group_id", "member_id").agg(
        F.first("client_id", ignorenulls=True).alias("client_id"),
        F.sum("records").alias("records"),
        F.percentile_approx("held_us", 0.5, 1_000).alias("p50_us"),
        F.percentile_approx("held_us", 0.95, 1_000).alias("p95_us"),
        F.max("held_us").alias("max_us"),
        F.max("lock_timeout_ms").alias("lock_timeout_ms"),
        F.sum(F.col("renewals") * F.col("records")).alias("renewals"),
        F.sum(F.when(F.col("lock_share") > 1, F.col("records")).otherwise(0)).alias("late"),
        F.sum(F.when(F.col("ack_error").isNotNull(), F.col("records")).otherwise(0)).alias("refused"),
    )


def life_lines(tried: DataFrame, chosen: DataFrame) -> DataFrame:
    """The deliveries of chosen records, across members.

    Args: tried: what `attempts` gives. chosen: records by group, topic, partition and offset, as `poison_records`.
    """
    return tried.join(chosen.select(*RECORD), list(RECORD), "left_semi")


def _given(acquired: DataFrame) -> DataFrame:
    return each_offset(acquired).select(
        *HOLDER,
        *ABOUT,
        "ts",
        F.lit(False).alias("is_word"),
        F.col("delivery_count").cast("int").alias("delivery_count"),
        "lock_timeout_ms",
        F.lit(None).cast("string").alias("ack_name"),
        F.lit(None).cast("string").alias("error_name"),
        F.lit(False).alias("refused"),
        F.lit(None).cast("bigint").alias("req_packet"),
        "resp_packet",
    )


def _words(acks: DataFrame) -> DataFrame:
    return each_offset(acks).select(
        *HOLDER,
        *ABOUT,
        "ts",
        F.lit(True).alias("is_word"),
        F.lit(None).cast("int").alias("delivery_count"),
        F.lit(None).cast("int").alias("lock_timeout_ms"),
        "ack_name",
        F.when(refused(), F.col("error_name")).alias("error_name"),
        refused().alias("refused"),
        "req_packet",
        F.lit(None).cast("bigint").alias("resp_packet"),
    )


def _of_the_delivery() -> list[Column]:
    return [
        F.first("client_id", ignorenulls=True).alias("client_id"),
        F.min(F.when(~F.col("is_word"), F.col("ts"))).alias("acquired_ts"),
        F.max("delivery_count").alias("delivery_count"),
        F.max("lock_timeout_ms").alias("lock_timeout_ms"),
        F.max(F.when(~F.col("is_word"), F.col("file"))).alias("file"),
        F.max("resp_packet").alias("resp_packet"),
    ]


def _of_the_word() -> list[Column]:
    told = F.struct("ts", "ack_name", "error_name", "file", "conn_id", "correlation_id", "req_packet")
    is_renewal = F.col("ack_name") == "renew"
    is_final = F.col("is_word") & ~is_renewal
    return [
        F.min_by(F.when(is_final & ~F.col("refused"), told), F.when(is_final & ~F.col("refused"), F.col("ts"))).alias(
            "taken"
        ),
        F.min_by(F.when(is_final & F.col("refused"), told), F.when(is_final & F.col("refused"), F.col("ts"))).alias(
            "not_taken"
        ),
        F.array_sort(F.collect_list(F.when(is_renewal & ~F.col("refused"), F.col("ts")))).alias("renewed"),
    ]
