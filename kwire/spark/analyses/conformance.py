"""Breaches of the protocol's rules by clients and brokers: one row each, with file, packet and correlation id."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.analyses.common import topic_or_id

API_VERSIONS = 18
LOCATION = ("file", "conn_id", "client_id", "api_name", "correlation_id", "req_packet", "resp_packet")

_OFFERED = "errorCode int, apiKeys array<struct<apiKey: int, minVersion: int, maxVersion: int>>"

# The issues of rows that are breaches, with the rule's name. Packet loss and truncation are not caused by the peers.
ISSUES = {
    "duplicate_correlation": "duplicate correlation id",
    "records": "damaged records",
    "protocol_violation": "protocol violations",
    "unknown_tag": "unknown tagged field",
    "unknown_api": "unknown API key",
    "newer_version": "version newer than known",
    "version_fallback": "version refused by the broker",
    "header": "undecodable header",
    "body": "undecodable body",
    "bad_length": "impossible frame length",
    "tls": "TLS",
}


def conformance(messages: DataFrame, bodies: DataFrame, partitions: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Every breach in the capture, as `rule` and `detail`; rules of `kwire.conformance` have their ids.

    Args: bodies: the messages of ApiVersions, with their bodies. deliveries: the result of `attempts`.
    """
    parts = [
        message_breaches(messages),
        versions_not_offered(messages, bodies),
        sequence_gaps(partitions),
        late_acknowledgements(deliveries),
    ]
    return reduce(DataFrame.unionByName, parts)


def message_breaches(messages: DataFrame) -> DataFrame:
    """The breaches that each message shows by itself: its issues, and responses out of order."""
    return _issues(messages).unionByName(response_order(messages))


def breaches(rows: DataFrame) -> DataFrame:
    """For each rule: number of breaches, number of connections, first and last time.

    Args: rows: the result of `conformance`.
    """
    return rows.groupBy("rule").agg(
        F.count("*").alias("breaches"),
        F.count_distinct("file", "conn_id").alias("connections"),
        F.min("ts").alias("first_ts"),
        F.max("ts").alias("last_ts"),
    )


def response_order(messages: DataFrame) -> DataFrame:
    """Responses out of order: a broker must respond to the requests of a connection in their order."""
    detail = F.lit("the response to a later request of this connection came first")
    return _rows(messages.filter(~F.col("order_ok")), "response out of order", detail, F.col("resp_ts"))


def versions_not_offered(messages: DataFrame, bodies: DataFrame) -> DataFrame:
    """Requests in a version that the broker's own ApiVersions response does not offer.

    Brokers are identified by file and address; requests to one whose response is not in the capture are not checked.

    Args: bodies: the messages of ApiVersions, with their bodies.
    """
    broker = ("file", "broker_ip", "broker_port")
    offered = (
        bodies.filter((F.col("api_key") == API_VERSIONS) & F.col("body_response").isNotNull())
        # A broker sends the same response to all its clients, and parsing it takes longer than the rest.
        .select(*broker, "body_response")
        .distinct()
        .withColumn("answer", F.from_json("body_response", _OFFERED))
        # A response with UNSUPPORTED_VERSION (35) lists ApiVersions only, and says nothing about other APIs.
        .filter(F.coalesce("answer.errorCode", F.lit(0)) == 0)
        .select(*broker, F.explode("answer.apiKeys").alias("offer"))
        .groupBy(*broker, F.col("offer.apiKey").alias("api_key"))
        .agg(F.min("offer.minVersion").alias("version_min"), F.max("offer.maxVersion").alias("version_max"))
    )
    brokers = offered.groupBy(*broker).agg(F.lit(True).alias("is_known"))
    # A client sends ApiVersions before it has any versions, and falls back when the broker refuses (KIP-511).
    requests = messages.filter(F.col("api_version").isNotNull() & (F.col("api_key") != API_VERSIONS))
    # Few versions are used: these are checked, and only the requests in a wrong one are read.
    versions = requests.groupBy(*broker, "api_key", "api_version").agg(F.lit(True).alias("is_used"))
    is_not_offered = F.col("version_min").isNull()
    is_outside_range = ~F.col("api_version").between(F.col("version_min"), F.col("version_max"))
    wrong = (
        versions.join(F.broadcast(brokers), list(broker))
        .join(F.broadcast(offered), [*broker, "api_key"], "left")
        .filter(is_not_offered | is_outside_range)
        .select(*broker, "api_key", "api_version", "version_min", "version_max")
    )
    checked = requests.join(F.broadcast(wrong), [*broker, "api_key", "api_version"])
    version = F.concat(F.lit("version "), "api_version")
    offer = F.concat(F.lit(", offered are "), "version_min", F.lit(" to "), "version_max")
    detail = F.concat(version, F.when(is_not_offered, ", of an API that is not offered").otherwise(offer))
    return _rows(checked, "api-version-not-offered", detail, F.col("req_ts"))


def sequence_gaps(partitions: DataFrame) -> DataFrame:
    """Batches of idempotent producers that do not continue the previous sequence: records in between are missing.

    A lower sequence than expected is a retry, not a gap; a producer's first batch in the capture is not checked.
    When a sequence wraps from 2^31 - 1 to 0, all later batches count as retries.
    """
    is_checked = (F.col("producer_id") >= 0) & (F.col("sequence") >= 0) & (F.col("records") > 0)
    sent = partitions.filter((F.col("api_name") == "Produce") & is_checked).withColumn("topic", topic_or_id())
    writer = Window.partitionBy("file", "producer_id", "epoch", "topic", "partition").orderBy("ts", "req_packet")
    next_sequence = F.col("sequence").cast("bigint") + F.col("records")
    expected = F.max(next_sequence).over(writer.rowsBetween(Window.unboundedPreceding, -1))
    batches = sent.withColumn("expected", expected)
    detail = F.concat(
        F.lit("producer "), "producer_id", F.lit(", "), "topic", F.lit("-"), "partition",
        F.lit(": sequence "), "sequence", F.lit(", expected "), "expected",
    )  # fmt: skip
    gaps = batches.filter(F.col("sequence") > F.col("expected"))
    return _rows(gaps, "produce-sequence-gap", detail, F.col("ts"))


def late_acknowledgements(deliveries: DataFrame) -> DataFrame:
    """Acknowledgements sent after the acquisition lock had expired; renewals of the lock are taken into account.

    Args: deliveries: the result of `attempts`.
    """
    request = ("file", "conn_id", "client_id", "correlation_id", "req_packet")
    late = deliveries.filter(F.col("lock_share") > 1)
    ranges = late.groupBy(*request, "ack_ts", "topic", "partition", "lock_timeout_ms").agg(
        F.count("*").alias("records"), F.min("offset").alias("first_offset"), F.max("held_us").alias("held_us")
    )
    missing = {"api_name": F.lit(None).cast("string"), "resp_packet": F.lit(None).cast("bigint")}
    acknowledgements = ranges.withColumns(missing)
    detail = F.concat(
        "records", F.lit(" of "), "topic", F.lit("-"), "partition", F.lit(" from offset "), "first_offset",
        F.lit(" on, held for "), F.round(F.col("held_us") / 1000).cast("bigint"), F.lit(" ms with a lock of "),
        "lock_timeout_ms", F.lit(" ms"),
    )  # fmt: skip
    return _rows(acknowledgements, "share-ack-lock-expired", detail, F.col("ack_ts"))


def _issues(messages: DataFrame) -> DataFrame:
    """Breaches from the `issues` column."""
    names = F.create_map(*(F.lit(word) for pair in ISSUES.items() for word in pair))
    issues = messages.withColumn("issue", F.explode("issues")).withColumn("rule", names[F.col("issue.kind")])
    is_crc = (F.col("issue.kind") == "records") & F.lower("issue.detail").contains("crc")
    rule = F.when(is_crc, "CRC of a batch is wrong").otherwise(F.col("rule"))
    # One side uses TLS and the other does not; TLS that cannot be decrypted is no breach.
    is_plaintext = (F.col("issue.kind") == "tls") & F.col("issue.detail").rlike("plaintext port|port speaks TLS")
    rule = F.when(is_plaintext, "TLS meets plaintext").otherwise(rule)
    breaches = issues.filter(F.col("rule").isNotNull() & ((F.col("issue.kind") != "tls") | is_plaintext))
    path = F.when(F.col("issue.path") != "", F.concat("issue.path", F.lit(": "))).otherwise("")
    return _rows(breaches, rule, F.concat(path, "issue.detail"), F.coalesce("req_ts", "resp_ts"))


def _rows(rows: DataFrame, rule: str | Column, detail: Column, ts: Column) -> DataFrame:
    rule_name = F.lit(rule) if isinstance(rule, str) else rule
    return rows.select(rule_name.alias("rule"), *LOCATION, ts.alias("ts"), detail.alias("detail"))
