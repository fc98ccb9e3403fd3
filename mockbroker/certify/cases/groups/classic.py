"""The classic group protocol."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun


@case(
    "groups.classic.commit-on-close",
    title="A consumer with automatic commits is closed",
    level=Level.MUST,
    rule="With enable.auto.commit the positions are committed on close, before the member leaves the group.",
    source=Source("Kafka documentation", "enable.auto.commit", "kafka-clients KafkaConsumer.close"),
    needs=("consumer.classic",),
    settings_needed=("enable_auto_commit", "auto_commit_interval_ms", "auto_offset_reset", "metadata_max_age_ms"),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    quick=True,
)
def commit_on_close(run: CaseRun) -> None:
    """No fault: the interval of automatic commits is longer than the case."""
    run.produce("orders", "first", "second")
    consumer = run.consumer(
        group_id="shop",
        enable_auto_commit=True,
        auto_commit_interval_ms=600_000,
        auto_offset_reset="earliest",
        metadata_max_age_ms=1_000,  # For clients that form the group before they know the partitions.
    )
    consumer.subscribe("orders")
    consumer.poll_until(records=2)

    consumer.close()

    commits = run.wire.requests("OffsetCommit", group="shop", where={"topics.partitions.committed_offset": 2})
    leaves = run.wire.requests("LeaveGroup", group="shop")
    run.expect(commits, "OffsetCommit of offset 2", seen=run.wire.requests("OffsetCommit"))
    run.expect(leaves, "LeaveGroup", seen="none")
    is_before = commits[0].number < leaves[0].number
    run.expect(is_before, "the commit comes before LeaveGroup", seen="after it", exchanges=[commits[0], leaves[0]])
