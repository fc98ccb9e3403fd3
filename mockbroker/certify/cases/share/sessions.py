"""Share sessions: epochs, and sessions that the broker has lost."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun


@case(
    "share.session.lost",
    title="A ShareFetch is refused with SHARE_SESSION_NOT_FOUND",
    level=Level.MUST,
    rule="A client whose share session does not exist any more opens a new one with epoch 0.",
    source=Source("KIP-932", "Share sessions"),
    needs=("share",),
    cluster=ClusterPlan(topics={"orders": 1}),
    quick=True,
)
def lost(run: CaseRun) -> None:
    """One ShareFetch of an open session is answered with SHARE_SESSION_NOT_FOUND at the top."""
    consumer = run.share_consumer(group_id="shop")
    consumer.subscribe("orders")
    run.start_share_group(consumer, "shop", "orders")
    fault = "SHARE_SESSION_NOT_FOUND"
    run.cluster.faults.add("ShareFetch", filter="share_session_epoch>0", times=1, error=fault, error_at="top")
    polling = run.in_background(lambda: consumer.poll_until(records=1, timeout_s=12))
    [refused] = run.wire.wait_for_request("ShareFetch", error=fault)

    reopened = run.wire.wait_for_request("ShareFetch", where={"share_session_epoch": 0}, after=refused)
    run.produce("orders", "first")

    values = polling.result().values
    run.expect(values == ["first"], "the record arrives in the new session", seen=values, exchanges=reopened)
