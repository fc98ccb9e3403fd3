"""Groups and their members: who joined when, at which epoch, what went wrong on the way."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

CLASSIC = {11: "join", 14: "sync", 12: "heartbeat", 13: "leave"}
# ConsumerGroupHeartbeat, ShareGroupHeartbeat, StreamsGroupHeartbeat: one request for all of it, with an epoch.
EPOCHAL = (68, 76, 88)
API_KEYS = (*CLASSIC, *EPOCHAL)

# MEMBER_ID_REQUIRED: the ordinary first step of joining since KIP-394.
MEMBER_ID_REQUIRED = 79

MEMBER = ("group_id", "member_id")


def membership(messages: DataFrame) -> DataFrame:
    """The steps of each member of each group: `state` from `first_ts` to `last_ts`, at which epoch.

    `state` is joining, syncing, member, error (with `error_name`) or left. A step lasts until the next one; the last
    one until the member's last sign of life. Classic groups count generations, the others member epochs.

    Args: messages: the level `messages` with its bodies; only group APIs are looked at.
    """
    by_member = Window.partitionBy(*MEMBER).orderBy("ts", "place")
    steps = _moments(messages).withColumns(
        {
            "state_before": F.lag("state").over(by_member),
            "epoch_before": F.lag("epoch").over(by_member),
            "error_before": F.lag("error_name").over(by_member),
            "heard_ts": F.max("end_ts").over(Window.partitionBy(*MEMBER)),
        }
    )
    same = (
        F.col("state").eqNullSafe(F.col("state_before"))
        & F.coalesce(F.col("epoch") == F.col("epoch_before"), F.col("epoch").isNull())
        & F.col("error_name").eqNullSafe(F.col("error_before"))
    )
    ends = F.coalesce(F.lead("ts").over(by_member), F.greatest("heard_ts", "ts"))
    return (
        steps.filter(~same)
        .withColumn("last_ts", ends)
        .select(
            *MEMBER,
            "client_id",
            "kind",
            "state",
            "epoch",
            "error_name",
            F.col("ts").alias("first_ts"),
            "last_ts",
            *("file", "conn_id", "correlation_id", "req_packet", "resp_packet"),
        )
    )


def rebalances(steps: DataFrame) -> DataFrame:
    """For each group: members seen, epochs or generations passed through, errors, time spent joining and syncing.

    Args: steps: what `membership` gives.
    """
    waited = F.when(
        F.col("state").isin("joining", "syncing"), F.unix_micros("last_ts") - F.unix_micros("first_ts")
    ).otherwise(0)
    return steps.groupBy("group_id").agg(
        F.first("kind", ignorenulls=True).alias("kind"),
        F.count_distinct("member_id").alias("members"),
        F.count_distinct(F.when(F.col("state") == "member", F.col("epoch"))).alias("epochs"),
        F.count_if(F.col("state") == "error").alias("errors"),
        F.count_if(F.col("state") == "left").alias("left"),
        F.sum(waited).alias("waited_us"),
    )


def _moments(messages: DataFrame) -> DataFrame:
    """What each request of a group API begins, as one or two moments in the life of its member."""
    found = messages.filter(F.col("api_key").isin(*API_KEYS) & F.col("req_ts").isNotNull())
    code = F.coalesce("error_code", F.lit(0))
    told = found.withColumns(
        {
            "kind": F.when(
                F.col("api_key").isin(*EPOCHAL), F.regexp_extract("api_name", "^(.*)GroupHeartbeat$", 1)
            ).otherwise("Classic"),
            "epoch": _epoch(),
            "is_leave": (F.col("api_key") == 13) | (_asked_epoch() < 0),
            "failed": (code != 0) & (code != MEMBER_ID_REQUIRED),
            # LeaveGroup names its members in a list since version 3; one that leaves alone is the usual case.
            # One that never got an id goes by its client's name.
            "member_id": F.coalesce(
                "member_id", F.get_json_object("body_request", "$.members[0].memberId"), "client_id"
            ),
            "end_ts": F.coalesce("resp_ts", "req_ts"),
        }
    )
    begun = F.struct(F.col("req_ts").alias("ts"), F.lit(0).alias("place"), _first_state().alias("state"))
    after = F.struct(F.col("end_ts").alias("ts"), F.lit(1).alias("place"), _state_after().alias("state"))
    return (
        told.filter(F.col("member_id").isNotNull())
        .withColumn("moment", F.explode(F.array(begun, after)))
        .select("*", "moment.*")
        .filter(F.col("state").isNotNull())
        .withColumn("error_name", F.when(F.col("state") == "error", F.col("error_name")))
        .withColumn("epoch", F.when(F.col("state") == "member", F.col("epoch")))
    )


def _first_state() -> Column:
    """What the request itself begins."""
    key = F.col("api_key")
    joins = (key == 11) | (key.isin(*EPOCHAL) & (_asked_epoch() == 0))
    return F.when(F.col("is_leave"), "left").when(joins, "joining").when(key == 14, "syncing")


def _state_after() -> Column:
    """What its answer begins; nothing where there is none, and nothing new after a leave or an answer to JoinGroup."""
    key = F.col("api_key")
    answered = F.col("resp_ts").isNotNull() & ~F.col("is_leave")
    return F.when(answered & F.col("failed"), "error").when(answered & (key != 11), "member")


def _asked_epoch() -> Column:
    """The epoch that a heartbeat names: 0 to join, below 0 to leave. Classic requests name none, which counts as 1."""
    return F.coalesce(F.get_json_object("body_request", "$.memberEpoch").cast("int"), F.lit(1))


def _epoch() -> Column:
    """The generation or epoch after the exchange; SyncGroup and Heartbeat name theirs in the request."""
    names = ("$.memberEpoch", "$.generationId")
    found = [F.get_json_object(body, name).cast("int") for body in ("body_response", "body_request") for name in names]
    return F.coalesce(*found)
