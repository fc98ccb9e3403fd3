"""Analyses of group membership and rebalances: when members joined, at which epoch, and with which errors."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.analyses.common import micros_between

CLASSIC_APIS = {11: "join", 14: "sync", 12: "heartbeat", 13: "leave"}
# ConsumerGroupHeartbeat, ShareGroupHeartbeat, StreamsGroupHeartbeat: one request for all steps, with an epoch.
HEARTBEAT_API_KEYS = (68, 76, 88)
API_KEYS = (*CLASSIC_APIS, *HEARTBEAT_API_KEYS)

# MEMBER_ID_REQUIRED is the normal first response when a member joins, since KIP-394.
MEMBER_ID_REQUIRED = 79

MEMBER = ("group_id", "member_id")


def membership(messages: DataFrame) -> DataFrame:
    """The steps of each member of each group: `state` from `first_ts` to `last_ts`, at which epoch.

    `state` is joining, syncing, member, error (with `error_name`) or left. A step lasts until the next one; the last
    one until the member's last response or request. Classic groups count generations, the others member epochs.

    Args: messages: the level `messages` with its bodies; only group APIs are used.
    """
    by_member = Window.partitionBy(*MEMBER).orderBy("ts", "order")
    events = _member_events(messages).withColumns(
        {
            "state_before": F.lag("state").over(by_member),
            "epoch_before": F.lag("epoch").over(by_member),
            "error_before": F.lag("error_name").over(by_member),
            "last_seen_ts": F.max("end_ts").over(Window.partitionBy(*MEMBER)),
        }
    )
    is_unchanged = (
        F.col("state").eqNullSafe(F.col("state_before"))
        & F.coalesce(F.col("epoch") == F.col("epoch_before"), F.col("epoch").isNull())
        & F.col("error_name").eqNullSafe(F.col("error_before"))
    )
    end_ts = F.coalesce(F.lead("ts").over(by_member), F.greatest("last_seen_ts", "ts"))
    return (
        events.filter(~is_unchanged)
        .withColumn("last_ts", end_ts)
        .withColumnRenamed("ts", "first_ts")
        .select(
            *(*MEMBER, "client_id", "kind", "state", "epoch", "error_name", "first_ts", "last_ts"),
            *("file", "conn_id", "correlation_id", "req_packet", "resp_packet"),
        )
    )


def rebalances(steps: DataFrame) -> DataFrame:
    """For each group: number of members, epochs or generations, errors, and time spent joining and syncing.

    Args: steps: the result of `membership`.
    """
    waited_us = micros_between(F.col("first_ts"), F.col("last_ts"))
    waited = F.when(F.col("state").isin("joining", "syncing"), waited_us).otherwise(0)
    return steps.groupBy("group_id").agg(
        F.first("kind", ignorenulls=True).alias("kind"),
        F.count_distinct("member_id").alias("members"),
        F.count_distinct(F.when(F.col("state") == "member", F.col("epoch"))).alias("epochs"),
        F.count_if(F.col("state") == "error").alias("errors"),
        F.count_if(F.col("state") == "left").alias("left"),
        F.sum(waited).alias("waited_us"),
    )


def _member_events(messages: DataFrame) -> DataFrame:
    """One or two events of a member for each request of a group API: at the request, and at the response."""
    requests = messages.filter(F.col("api_key").isin(*API_KEYS) & F.col("req_ts").isNotNull())
    code = F.coalesce("error_code", F.lit(0))
    requests = requests.withColumns(
        {
            "kind": F.when(
                F.col("api_key").isin(*HEARTBEAT_API_KEYS), F.regexp_extract("api_name", "^(.*)GroupHeartbeat$", 1)
            ).otherwise("Classic"),
            "epoch": _epoch(),
            "is_leave": (F.col("api_key") == 13) | (_requested_epoch() < 0),
            "failed": (code != 0) & (code != MEMBER_ID_REQUIRED),
            # LeaveGroup has a list of members since version 3, usually with one member.
            # A member that never got an id is identified by its client id.
            "member_id": F.coalesce(
                "member_id", F.get_json_object("body_request", "$.members[0].memberId"), "client_id"
            ),
            "end_ts": F.coalesce("resp_ts", "req_ts"),
        }
    )
    request_event = F.struct(F.col("req_ts").alias("ts"), F.lit(0).alias("order"), _state_at_request().alias("state"))
    response_event = F.struct(F.col("end_ts").alias("ts"), F.lit(1).alias("order"), _state_at_response().alias("state"))
    return (
        requests.filter(F.col("member_id").isNotNull())
        .withColumn("event", F.explode(F.array(request_event, response_event)))
        .select("*", "event.*")
        .filter(F.col("state").isNotNull())
        .withColumn("error_name", F.when(F.col("state") == "error", F.col("error_name")))
        .withColumn("epoch", F.when(F.col("state") == "member", F.col("epoch")))
    )


def _state_at_request() -> Column:
    """The state that the request itself begins."""
    key = F.col("api_key")
    joins = (key == 11) | (key.isin(*HEARTBEAT_API_KEYS) & (_requested_epoch() == 0))
    return F.when(F.col("is_leave"), "left").when(joins, "joining").when(key == 14, "syncing")


def _state_at_response() -> Column:
    """The state that the response begins; null without a response, after a leave, and for a successful JoinGroup."""
    key = F.col("api_key")
    answered = F.col("resp_ts").isNotNull() & ~F.col("is_leave")
    return F.when(answered & F.col("failed"), "error").when(answered & (key != 11), "member")


def _requested_epoch() -> Column:
    """The epoch in a heartbeat request: 0 to join, below 0 to leave. Classic requests have none, which counts as 1."""
    return F.coalesce(F.get_json_object("body_request", "$.memberEpoch").cast("int"), F.lit(1))


def _epoch() -> Column:
    """The generation or epoch after the exchange; SyncGroup and Heartbeat have it in the request."""
    names = ("$.memberEpoch", "$.generationId")
    candidates = [
        F.get_json_object(body, name).cast("int") for body in ("body_response", "body_request") for name in names
    ]
    return F.coalesce(*candidates)
