"""The consumer group protocol of KIP-848."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun


@case(
    "groups.consumer.fenced-epoch",
    title="A heartbeat is refused with FENCED_MEMBER_EPOCH",
    level=Level.MUST,
    rule="A fenced member gives up its partitions and joins again with the same member id and epoch 0.",
    source=Source("KIP-848", "Member ID and Epoch, ConsumerGroupHeartbeat, Error handling"),
    needs=("consumer.kip848",),
    settings_needed=("auto_offset_reset",),
    cluster=ClusterPlan(topics={"orders": 1}),
    quick=True,
)
def fenced_epoch(run: CaseRun) -> None:
    """One heartbeat of the stable member is answered with FENCED_MEMBER_EPOCH."""
    consumer = run.consumer(group_id="shop", group_protocol="consumer", auto_offset_reset="earliest")
    consumer.subscribe("orders")
    run.cluster.produce("orders", "first")
    consumer.poll_until(records=1)
    run.cluster.faults.add("ConsumerGroupHeartbeat", times=1, error="FENCED_MEMBER_EPOCH")
    fenced = run.in_background(lambda: consumer.poll_until(records=1, timeout_s=12))
    [refused] = run.wire.wait_for_request("ConsumerGroupHeartbeat", error="FENCED_MEMBER_EPOCH")

    rejoined = run.wire.wait_for_request("ConsumerGroupHeartbeat", where={"member_epoch": 0}, after=refused)
    run.cluster.produce("orders", "second")
    polled = fenced.result()

    run.expect(
        rejoined[0].request.member_id == refused.request.member_id,
        "the member joins again with its member id",
        seen=rejoined[0].request.member_id,
        exchanges=[refused, rejoined[0]],
    )
    run.expect("second" in polled.values, "the member consumes again", seen=polled.values, exchanges=rejoined)
