"""Errors of Produce that the client retries."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun


@case(
    "producing.retries.not-leader",
    title="Produce is refused once with NOT_LEADER_OR_FOLLOWER",
    level=Level.MUST,
    rule="The error is retriable: the producer refreshes its metadata and sends the batch again.",
    source=Source("Kafka protocol guide", "Error codes", "kafka-clients NotLeaderOrFollowerException, retries"),
    needs=("producer",),
    cluster=ClusterPlan(topics={"orders": 1}),
    quick=True,
)
def not_leader(run: CaseRun) -> None:
    """The first Produce request is answered with NOT_LEADER_OR_FOLLOWER, and nothing is appended."""
    run.cluster.faults.add("Produce", times=1, error="NOT_LEADER_OR_FOLLOWER")

    [delivery] = run.producer().send("orders", "first")

    refused, *retried = run.wire.requests("Produce")
    run.expect(delivery.error is None, "the record is delivered by a retry", seen=delivery.error, exchanges=refused)
    run.expect(len(retried) == 1, "one more Produce request", seen=f"{len(retried)}", exchanges=[refused, *retried])
    refreshed = run.find_request("Metadata", after=refused)
    run.should(
        refreshed, "metadata is refreshed after NOT_LEADER_OR_FOLLOWER", seen="no Metadata request", exchanges=refused
    )
