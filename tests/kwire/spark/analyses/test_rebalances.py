"""Analyses of group membership, on a few handwritten rows."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import DataFrame, SparkSession

from kwire.registry import api_name
from kwire.spark import analyses
from tests.support.spark.data_frames import START_US, Row, at, frame, message

pytestmark = pytest.mark.spark

JOIN, HEARTBEAT, LEAVE, SYNC, SHARE = 11, 12, 13, 14, 76


def exchange(key: int, first_s: float, last_s: float, request: Row, response: Row, **more: object) -> Row:
    """One exchange of the member `m` of the group `g`."""
    bodies = {"body_request": json.dumps(request), "body_response": json.dumps(response)}
    who = {"group_id": "g", "member_id": "m", "resp_ts": at(last_s), "error_code": 0, "error_name": "NONE"}
    return message(api_name(key), key, first_s, **{**who, **bodies, **more})


def step_values(steps: DataFrame) -> list[tuple[str, int | None, float, float]]:
    """State, epoch, first and last second of each step."""
    rows = steps.selectExpr("*", "unix_micros(first_ts) AS a", "unix_micros(last_ts) AS b").orderBy("a", "b").collect()
    return [(row["state"], row["epoch"], (row["a"] - START_US) / 1e6, (row["b"] - START_US) / 1e6) for row in rows]


def test_a_classic_member_joins_syncs_and_leaves(spark: SparkSession) -> None:
    rows = [
        # The first response only assigns the member id: no error, and no step.
        exchange(JOIN, 0, 0.5, {"memberId": ""}, {"generationId": -1}, error_code=79, error_name="MEMBER_ID_REQUIRED"),
        exchange(JOIN, 1, 3, {"memberId": "m"}, {"generationId": 4}),
        exchange(SYNC, 3, 4, {"generationId": 4}, {}),
        exchange(HEARTBEAT, 6, 6.1, {"generationId": 4}, {}),
        exchange(LEAVE, 9, 9.5, {"members": [{"memberId": "m"}]}, {}, member_id=None),
    ]

    steps = analyses.membership(frame(spark, "messages", rows))
    row = analyses.rebalances(steps).collect()[0]

    assert step_values(steps) == [
        ("joining", None, 0.0, 3.0),
        ("syncing", None, 3.0, 4.0),
        ("member", 4, 4.0, 9.0),
        ("left", None, 9.0, 9.5),
    ]
    assert (row["kind"], row["members"], row["epochs"], row["errors"], row["left"]) == ("Classic", 1, 1, 0, 1)
    assert row["waited_us"] == 4_000_000


def test_a_member_of_a_share_group_steps_from_epoch_to_epoch(spark: SparkSession) -> None:
    rows = [
        exchange(SHARE, 0, 1, {"memberEpoch": 0}, {"memberEpoch": 5}),
        exchange(SHARE, 5, 5.1, {"memberEpoch": 5}, {"memberEpoch": 5}),
        exchange(SHARE, 10, 10.1, {"memberEpoch": 5}, {"memberEpoch": 6}),
        exchange(SHARE, 15, 15.1, {"memberEpoch": 6}, {}, error_code=25, error_name="UNKNOWN_MEMBER_ID"),
        exchange(SHARE, 16, 17, {"memberEpoch": 0}, {"memberEpoch": 7}),
        exchange(SHARE, 20, 20.5, {"memberEpoch": -1}, {"memberEpoch": -1}),
    ]

    steps = analyses.membership(frame(spark, "messages", rows))
    row = analyses.rebalances(steps).collect()[0]

    assert step_values(steps) == [
        ("joining", None, 0.0, 1.0),
        ("member", 5, 1.0, 10.1),
        ("member", 6, 10.1, 15.1),
        ("error", None, 15.1, 16.0),
        ("joining", None, 16.0, 17.0),
        ("member", 7, 17.0, 20.0),
        ("left", None, 20.0, 20.5),
    ]
    assert (row["kind"], row["epochs"], row["errors"]) == ("Share", 3, 1)


def test_a_member_without_an_id_is_identified_by_its_client(spark: SparkSession) -> None:
    rows = [exchange(JOIN, 0, 1, {}, {}, member_id=None, error_code=14, error_name="COORDINATOR_LOAD_IN_PROGRESS")]

    steps = analyses.membership(frame(spark, "messages", rows)).orderBy("first_ts")

    assert steps.select("member_id", "state", "error_name").collect() == [
        ("me", "joining", None),
        ("me", "error", "COORDINATOR_LOAD_IN_PROGRESS"),
    ]
