"""Ready analyses of captures: each takes the DataFrame of a level and gives a DataFrame, computed by Spark.

`messages`, `acquired` and `acks` are the levels `messages`, `share_acquired` and `share_acks` of `kafka_capture`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

# Offsets come from the wire, and one row may claim 2^62 of them. Kafka gives out at most
# `group.share.partition.max.record.locks` (range up to 10,000) records of a partition at a time.
RANGE_RECORDS_MAX = 100_000

# Kafka's default of `group.share.delivery.count.limit`.
DELIVERY_COUNT_LIMIT = 5

RECORD = ("group_id", "topic", "partition", "offset")


def overview(messages: DataFrame) -> DataFrame:
    """For each file: requests, those matched and decoded, connections, first and last moment."""
    return messages.groupBy("file").agg(
        F.count(F.col("in_flight")).alias("requests"),  # Requests alone have it: not TLS, lost bytes or trouble.
        F.count_if(F.col("status") == "ok").alias("ok"),
        F.count_distinct("conn_id", "stream_epoch").alias("connections"),
        F.min(F.coalesce("req_ts", "resp_ts")).alias("first_ts"),
        F.max(F.coalesce("resp_end_ts", "resp_ts", "req_end_ts", "req_ts")).alias("last_ts"),
    )


def statuses(messages: DataFrame) -> DataFrame:
    """How many rows have each status."""
    return messages.groupBy("status").agg(F.count("*").alias("messages"))


def latency(messages: DataFrame) -> DataFrame:
    """Latency of each API in microseconds: p50, p95, p99 and max over the answered requests, and the versions seen."""
    ranks = F.percentile_approx("latency_us", F.lit([0.5, 0.95, 0.99]), 10_000)
    return (
        messages.filter(F.col("latency_us").isNotNull() & F.col("api_name").isNotNull())
        .groupBy("api_name")
        .agg(
            F.count("*").alias("requests"),
            F.array_sort(F.collect_set("api_version")).alias("versions"),
            ranks.alias("ranks"),
            F.max("latency_us").alias("max_us"),
        )
        .select(
            "api_name",
            "versions",
            "requests",
            F.col("ranks")[0].alias("p50_us"),
            F.col("ranks")[1].alias("p95_us"),
            F.col("ranks")[2].alias("p99_us"),
            "max_us",
        )
    )


def traffic(messages: DataFrame, *, start_us: int, step_us: int) -> DataFrame:
    """Requests by API in spans of `step_us`; `bin` counts the spans from `start_us`."""
    return _binned(messages.filter(F.col("req_ts").isNotNull()), F.col("req_ts"), "api_name", start_us, step_us)


def errors_over_time(messages: DataFrame, *, start_us: int, step_us: int) -> DataFrame:
    """Responses by error in spans of `step_us`; an error inside a response (of a partition, say) counts as its own."""
    return _binned(_failed(messages), F.coalesce("resp_ts", "req_ts"), "error_name", start_us, step_us)


def errors(messages: DataFrame) -> DataFrame:
    """How often each API answered with each error, and when first and last."""
    moment = F.coalesce("resp_ts", "req_ts")
    return (
        _failed(messages)
        .groupBy("api_name", "error_name")
        .agg(F.count("*").alias("responses"), F.min(moment).alias("first_ts"), F.max(moment).alias("last_ts"))
    )


def delivery_counts(acquired: DataFrame) -> DataFrame:
    """For each record of each share group: how often it was handed out, and the highest delivery count told.

    The two differ where the capture began late, or where an attempt was taken back without being counted.
    """
    return _deliveries(acquired).drop("last_acquired_ts")


def deliveries_by_count(acquired: DataFrame) -> DataFrame:
    """Records handed out in each share group with each delivery count; 2 and above are redeliveries."""
    return (
        acquired.filter(_is_sane())
        .groupBy("group_id", F.col("delivery_count").cast("int").alias("delivery_count"))
        .agg(F.sum(_length()).alias("records"))
    )


def deliveries_over_time(acquired: DataFrame, *, start_us: int, step_us: int) -> DataFrame:
    """Records handed out in spans of `step_us`, those for the `first time` apart from those `again`."""
    name = F.when(F.col("delivery_count") > 1, "again").otherwise("first time")
    sane = acquired.filter(_is_sane() & F.col("ts").isNotNull())
    return sane.groupBy(name.alias("name"), _bin(F.col("ts"), start_us, step_us)).agg(F.sum(_length()).alias("count"))


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


def acknowledgements(acks: DataFrame) -> DataFrame:
    """Records by share group, member, client and kind of acknowledgement; `refused`: not taken by the broker."""
    return (
        acks.filter(_is_sane())
        .groupBy("group_id", "member_id", "client_id", "ack_name", _refused().alias("refused"))
        .agg(F.sum(_length()).alias("records"))
    )


def last_acknowledgements(acks: DataFrame) -> DataFrame:
    """For each record of each share group: the last final word on it that the broker took (renewals are not final)."""
    newest = Window.partitionBy(*RECORD).orderBy(F.col("ts").desc(), F.col("correlation_id").desc())
    return (
        _each_offset(acks.filter(~_refused() & (F.col("ack_name") != "renew")))
        .withColumn("newest", F.row_number().over(newest))
        .filter(F.col("newest") == 1)
        .select(*RECORD, "ack_name", "member_id", "ts")
    )


def outcomes(acquired: DataFrame, acks: DataFrame, *, delivery_count_limit: int = DELIVERY_COUNT_LIMIT) -> DataFrame:
    """What became of each delivered record, as far as the capture tells.

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
        .select(*RECORD, "deliveries", "delivery_count_max", "outcome", "member_id")
    )


def archived(acquired: DataFrame, acks: DataFrame, *, delivery_count_limit: int = DELIVERY_COUNT_LIMIT) -> DataFrame:
    """The records that nobody will be given again though nobody accepted them: rejected, or exhausted at the limit."""
    fates = outcomes(acquired, acks, delivery_count_limit=delivery_count_limit)
    return fates.filter(F.col("outcome").isin("rejected", "exhausted"))


def _deliveries(acquired: DataFrame) -> DataFrame:
    return (
        _each_offset(acquired)
        .groupBy(*RECORD)
        .agg(
            F.count("*").cast("int").alias("deliveries"),
            F.max("delivery_count").cast("int").alias("delivery_count_max"),
            F.max("ts").alias("last_acquired_ts"),
        )
    )


def _failed(messages: DataFrame) -> DataFrame:
    return messages.filter((F.col("error_code") != 0) & F.col("api_name").isNotNull())


def _binned(rows: DataFrame, moment: Column, name: str, start_us: int, step_us: int) -> DataFrame:
    return rows.groupBy(F.col(name).alias("name"), _bin(moment, start_us, step_us)).agg(F.count("*").alias("count"))


def _bin(moment: Column, start_us: int, step_us: int) -> Column:
    return F.floor((F.unix_micros(moment) - start_us) / step_us).cast("int").alias("bin")


def _refused() -> Column:
    return F.coalesce(F.col("error_code") != 0, F.lit(False))


def _length() -> Column:
    # `try_` gives null where a hostile range does not fit 64 bits; the plain operators would end the whole job.
    return F.try_add(F.try_subtract(F.col("last_offset"), F.col("first_offset")), F.lit(1))


def _is_sane() -> Column:
    return (F.col("first_offset") >= 0) & _length().between(1, RANGE_RECORDS_MAX)


def _each_offset(ranges: DataFrame) -> DataFrame:
    """One row for each offset; a topic that the capture never names goes by its id."""
    return (
        ranges.filter(_is_sane())
        .withColumn("offset", F.explode(F.sequence("first_offset", "last_offset")))
        .withColumn("topic", F.coalesce("topic", "topic_id"))
    )
