"""Acknowledgements of share consumers."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun


@case(
    "share.acknowledge.release",
    title="A released record is delivered again",
    level=Level.MUST,
    rule="A record that was acknowledged with RELEASE becomes available again, with a higher delivery count.",
    source=Source("KIP-932", "Record delivery and acknowledgement", "kafka-clients AcknowledgeType.RELEASE"),
    needs=("share.explicit", "share.commit", "share.delivery_count"),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    quick=True,
)
def release(run: CaseRun) -> None:
    """No fault: a record is released by the application, and delivered a second time."""
    consumer = run.share_consumer(group_id="shop", share_acknowledgement_mode="explicit")
    consumer.subscribe("orders")
    run.start_share_group(consumer, "shop", "orders")
    run.produce("orders", "first")
    [first] = consumer.poll_until(records=1).records
    consumer.acknowledge(first, "release")
    results = consumer.commit()

    [second] = consumer.poll_until(records=1).records
    consumer.acknowledge(second)
    consumer.commit()

    run.expect(results == {("orders", 0): None}, "the commit of the partition succeeds", seen=results)
    counts = (first.delivery_count, second.delivery_count)
    run.expect(second.offset == first.offset, "the same record again", seen=second)
    run.expect(counts == (1, 2), "delivery counts 1 and 2", seen=counts)


@case(
    "share.acknowledge.leader-moved",
    title="Acknowledgements of a partition whose leader moved",
    level=Level.MUST,
    rule="Acknowledgements go to the node that delivered the records; after a change of leader they fail.",
    source=Source("KIP-932", "Share sessions", "kafka-clients KafkaShareConsumer.commitSync"),
    needs=("share.explicit", "share.commit"),
    cluster=ClusterPlan(nodes=2, topics={"orders": 1}),
)
def leader_moved(run: CaseRun) -> None:
    """The leadership of orders-0 moves to the other node while the application holds a record."""
    consumer = run.share_consumer(group_id="shop", share_acknowledgement_mode="explicit")
    consumer.subscribe("orders")
    run.start_share_group(consumer, "shop", "orders")
    run.produce("orders", "first")
    [record] = consumer.poll_until(records=1).records
    run.cluster.move_leader("orders", 0)

    consumer.acknowledge(record)
    results = consumer.commit()

    answered = run.wire.requests("ShareAcknowledge", topic="orders")
    run.expect(("orders", 0) in results, "a result for orders-0", seen=results, exchanges=answered)
    error = results["orders", 0]
    names = {"UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER"}
    run.expect(
        error is not None and error.name in names,
        "the error of the node that does not lead the partition any more, since the lock did not move with it",
        seen=error,
        exchanges=answered,
    )
