"""Where peers break the rules of the protocol: one row for each breach, with file, packet and correlation id."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.analyses.common import topic_or_id

API_VERSIONS = 18
PLACE = ("file", "conn_id", "client_id", "api_name", "correlation_id", "req_packet", "resp_packet")

_OFFERED = "errorCode int, apiKeys array<struct<apiKey: int, minVersion: int, maxVersion: int>>"

# Issues of rows that are breaches, and by which name. Loss and cut packets say nothing about the peers.
ISSUES = {
    "duplicate_correlation": "duplicate correlation id",
    "records": "damaged records",
    "oddity": "odd bytes",
    "unknown_tag": "unknown tagged field",
    "unknown_api": "unknown API key",
    "newer_version": "version newer than known",
    "version_fallback": "version refused by the broker",
    "header": "undecodable header",
    "body": "undecodable body",
    "bad_length": "impossible frame length",
    "tls": "TLS",
}


def conformance(messages: DataFrame, bodies: DataFrame, partitions: DataFrame, tried: DataFrame) -> DataFrame:
    """Every breach that the capture shows, as `rule` and `detail`.

    Args: bodies: the messages of ApiVersions, with their bodies. tried: what `attempts` gives.
    """
    parts = [
        _issues(messages),
        response_order(messages),
        versions_not_offered(messages, bodies),
        sequence_gaps(partitions),
        late_acknowledgements(tried),
    ]
    return reduce(DataFrame.unionByName, parts)


def breaches(found: DataFrame) -> DataFrame:
    """How often each rule was broken, by how many connections, and where first.

    Args: found: what `conformance` gives.
    """
    return found.groupBy("rule").agg(
        F.count("*").alias("breaches"),
        F.count_distinct("file", "conn_id").alias("connections"),
        F.min("ts").alias("first_ts"),
        F.max("ts").alias("last_ts"),
    )


def response_order(messages: DataFrame) -> DataFrame:
    """Answers that overtook each other: a broker answers the requests of a connection in their order."""
    detail = F.lit("an answer to a later request of this connection came before")
    return _rows(messages.filter(~F.col("order_ok")), "response out of order", detail, F.col("resp_ts"))


def versions_not_offered(messages: DataFrame, bodies: DataFrame) -> DataFrame:
    """Requests in a version that the broker's own ApiVersions answer does not offer.

    Brokers are told apart by file and address; one whose answer is not in the capture is not judged.

    Args: bodies: the messages of ApiVersions, with their bodies.
    """
    broker = ("file", "broker_ip", "broker_port")
    offered = (
        bodies.filter((F.col("api_key") == API_VERSIONS) & F.col("body_response").isNotNull())
        .withColumn("answer", F.from_json("body_response", _OFFERED))
        # A refusal of the version (error 35) offers ApiVersions alone, and says nothing of the others.
        .filter(F.coalesce("answer.errorCode", F.lit(0)) == 0)
        .select(*broker, F.explode("answer.apiKeys").alias("offer"))
        .groupBy(*broker, F.col("offer.apiKey").alias("api_key"))
        .agg(F.min("offer.minVersion").alias("version_min"), F.max("offer.maxVersion").alias("version_max"))
    )
    brokers = offered.groupBy(*broker).agg(F.lit(True).alias("is_known"))
    # A client asks for ApiVersions before it knows anything, and falls back when told to (KIP-511).
    asked = messages.filter(F.col("api_version").isNotNull() & (F.col("api_key") != API_VERSIONS))
    judged = asked.join(brokers, list(broker)).join(offered, [*broker, "api_key"], "left")
    missing = F.col("version_min").isNull()
    outside = ~F.col("api_version").between(F.col("version_min"), F.col("version_max"))
    detail = F.when(missing, F.concat(F.lit("version "), "api_version", F.lit(", of an API that is not offered")))
    detail = detail.otherwise(
        F.concat(F.lit("version "), "api_version", F.lit(", offered are "), "version_min", F.lit(" to "), "version_max")
    )
    return _rows(judged.filter(missing | outside), "version not offered", detail, F.col("req_ts"))


def sequence_gaps(partitions: DataFrame) -> DataFrame:
    """Batches of idempotent producers that do not follow the one before: records are missing in between.

    A lower sequence than expected is a retry, and no gap; a producer's first batch in the capture follows nothing.
    Where sequences go on at 0 after 2^31 - 1, all that follows counts as retries.
    """
    sent = partitions.filter(
        (F.col("api_name") == "Produce")
        & (F.col("producer_id") >= 0)
        & (F.col("sequence") >= 0)
        & (F.col("records") > 0)
    ).withColumn("topic", topic_or_id())
    writer = Window.partitionBy("file", "producer_id", "epoch", "topic", "partition").orderBy("ts", "req_packet")
    follows = F.col("sequence").cast("bigint") + F.col("records")
    expected = F.max(follows).over(writer.rowsBetween(Window.unboundedPreceding, -1))
    found = sent.withColumn("expected", expected)
    detail = F.concat(
        F.lit("producer "), "producer_id", F.lit(", "), "topic", F.lit("-"), "partition",
        F.lit(": sequence "), "sequence", F.lit(", expected "), "expected",
    )  # fmt: skip
    return _rows(
        found.filter(F.col("sequence") > F.col("expected")), "gap in a producer's sequence", detail, F.col("ts")
    )


def late_acknowledgements(tried: DataFrame) -> DataFrame:
    """Words on records whose lock had run out by the time they were sent, renewals counted in.

    Args: tried: what `attempts` gives.
    """
    late = tried.filter(F.col("lock_share") > 1).groupBy(
        *(
            "file",
            "conn_id",
            "client_id",
            "correlation_id",
            "req_packet",
            "ack_ts",
            "topic",
            "partition",
            "lock_timeout_ms",
        )
    )
    told = late.agg(
        F.count("*").alias("records"), F.min("offset").alias("first_offset"), F.max("held_us").alias("held_us")
    ).withColumns({"api_name": F.lit(None).cast("string"), "resp_packet": F.lit(None).cast("bigint")})
    detail = F.concat(
        "records", F.lit(" of "), "topic", F.lit("-"), "partition", F.lit(" from offset "), "first_offset",
        F.lit(" on, held for "), F.round(F.col("held_us") / 1000).cast("bigint"), F.lit(" ms with a lock of "),
        "lock_timeout_ms", F.lit(" ms"),
    )  # fmt: skip
    return _rows(told, "late acknowledgement", detail, F.col("ack_ts"))


def _issues(messages: DataFrame) -> DataFrame:
    """The issues that reading has found already."""
    names = F.create_map(*(F.lit(word) for pair in ISSUES.items() for word in pair))
    told = messages.withColumn("issue", F.explode("issues")).withColumn("rule", names[F.col("issue.kind")])
    crc = (F.col("issue.kind") == "records") & F.lower("issue.detail").contains("crc")
    rule = F.when(crc, "CRC of a batch is wrong").otherwise(F.col("rule"))
    # One side speaks TLS and the other does not; TLS that merely cannot be opened is no breach.
    plain = (F.col("issue.kind") == "tls") & F.col("issue.detail").rlike("plaintext port|port speaks TLS")
    rule = F.when(plain, "TLS meets plaintext").otherwise(rule)
    kept = told.filter(F.col("rule").isNotNull() & ((F.col("issue.kind") != "tls") | plain))
    path = F.when(F.col("issue.path") != "", F.concat("issue.path", F.lit(": "))).otherwise("")
    return _rows(kept, rule, F.concat(path, "issue.detail"), F.coalesce("req_ts", "resp_ts"))


def _rows(found: DataFrame, rule: str | Column, detail: Column, ts: Column) -> DataFrame:
    named = F.lit(rule) if isinstance(rule, str) else rule
    return found.select(named.alias("rule"), *PLACE, ts.alias("ts"), detail.alias("detail"))
