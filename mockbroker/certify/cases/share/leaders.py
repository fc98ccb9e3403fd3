"""Leaders of share partitions: records that are held, and acknowledgements under way, while they change."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.partition_changes import reassign
from mockbroker.certify.share_group import (
    QuietPolls,
    acknowledgements,
    carrying,
    delay_acknowledgements,
    is_named,
    join,
    join_explicit,
)

_TWO_NODES = ClusterPlan(nodes=2, topics={"orders": 1})
_COMMIT = Source("KIP-932", "Share sessions", "kafka-clients KafkaShareConsumer.commitSync")
_EXPLICIT = ("share.explicit", "share.commit")
_MOVED = ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "FENCED_LEADER_EPOCH")


@case(
    "share.acknowledge.leader-moved",
    title="Acknowledgements of a partition whose leader moved",
    level=Level.MUST,
    rule="Acknowledgements go to the node that delivered the records; after a change of leader they fail.",
    source=_COMMIT,
    needs=_EXPLICIT,
    cluster=_TWO_NODES,
    quick=True,
)
def leader_moved(run: CaseRun) -> None:
    """The leadership of orders-0 moves to the other node while the application holds a record."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    [record] = consumer.poll_until(records=1).records
    run.cluster.move_leader("orders", 0)

    consumer.acknowledge(record)
    results = consumer.commit()

    sent = carrying(acknowledgements(run))
    error = results.get(("orders", 0))
    expected = "an error that the node does not lead the partition, since the lock did not move with it"
    run.expect(is_named(error, *_MOVED), expected, seen=results, exchanges=sent)


@case(
    "share.leaders.moved-then-delivered",
    title="A record that was held when the leader moved is delivered again",
    level=Level.MUST,
    rule="The client fetches from the new leader, which delivers a record again that was not acknowledged.",
    source=Source("KIP-932", "Share sessions"),
    needs=("share.explicit", "share.commit"),
    cluster=_TWO_NODES,
)
def moved_then_delivered(run: CaseRun) -> None:
    """The leadership of orders-0 moves while the application holds a record."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    [record] = consumer.poll_until(records=1).records
    old = run.cluster.describe_topic("orders").partitions[0].leader
    run.cluster.move_leader("orders", 0)
    consumer.acknowledge(record)
    consumer.commit()

    [again] = consumer.poll_until(records=1).records

    opened = run.wire.requests("ShareFetch", node=1 - old)
    run.expect(again.offset == record.offset, "the same record from the new leader", seen=again, exchanges=opened)
    epoch = opened[0].request.share_session_epoch
    run.expect(epoch == 0, "epoch 0 at the new leader", seen=epoch, exchanges=opened[0])


@case(
    "share.leaders.moved-piggybacked",
    title="The leader moves before a poll that has acknowledgements to send",
    level=Level.MUST,
    rule="Acknowledgements of records that another node delivered are not sent to the new leader.",
    source=Source("KIP-932", "Share sessions", "kafka-clients AcknowledgementCommitCallback.onComplete"),
    needs=("share.explicit",),
    cluster=_TWO_NODES,
)
def moved_piggybacked(run: CaseRun) -> None:
    """The leadership of orders-0 moves after the application has accepted a record; then it polls."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    [record] = consumer.poll_until(records=1).records
    consumer.acknowledge(record)
    old = run.cluster.describe_topic("orders").partitions[0].leader
    run.cluster.move_leader("orders", 0)

    [again] = consumer.poll_until(records=1).records

    misplaced = [each for each in acknowledgements(run) if each.exchange.node_id != old]
    run.expect(not misplaced, "no acknowledgement at the new leader", seen=misplaced, exchanges=carrying(misplaced))
    run.expect(again.offset == record.offset, "the new leader delivers the record again", seen=again)


@case(
    "share.leaders.moved-during-commit",
    title="The leader moves while acknowledgements are under way",
    level=Level.MUST,
    rule="The result of a commit is that of the broker: after success the record is not delivered again, after an "
    "error it is.",
    source=_COMMIT,
    needs=_EXPLICIT,
    cluster=_TWO_NODES,
)
def moved_during_commit(run: CaseRun) -> None:
    """The acknowledgement is handled 300 ms late, when the node does not lead orders-0 any more."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    consumer.acknowledge(consumer.poll_until(records=1).records)
    delay_acknowledgements(run, 300)
    committing = run.in_background(consumer.commit)
    run.wire.wait_until(lambda: bool(acknowledgements(run)))
    run.cluster.move_leader("orders", 0)
    results = committing.result()
    run.produce("orders", "second")
    values = consumer.poll_until(lambda seen: "second" in seen.values).values

    sent = carrying(acknowledgements(run))
    run.expect(("orders", 0) in results, "a result for orders-0", seen=results, exchanges=sent)
    has_failed, is_repeated = results["orders", 0] is not None, "first" in values
    run.expect(has_failed == is_repeated, "delivered again after an error only", seen=(results, values), exchanges=sent)


@case(
    "share.leaders.to-unknown-node",
    title="The leader moves to a node that the client has never seen",
    level=Level.MUST,
    rule="A client learns of nodes that join the cluster, and fetches from a new leader there.",
    source=Source("KIP-932", "Share sessions", "KIP-951"),
    needs=("share",),
    cluster=ClusterPlan(nodes=1, topics={"orders": 1}),
)
def to_unknown_node(run: CaseRun) -> None:
    """A node joins the cluster, and orders-0 is moved to it, while a member polls."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    run.produce("orders", "first")
    consumer.poll_until(records=1)
    added = run.cluster.add_node()
    reassign(run, "orders", 0, added)
    run.produce("orders", "second")

    values = consumer.poll_until(lambda seen: "second" in seen.values).values

    opened = run.wire.requests("ShareFetch", node=added)
    run.expect(opened, f"ShareFetch at node {added}", seen="none", exchanges=run.wire.requests("ShareFetch"))
    run.expect("second" in values, "the record arrives", seen=values, exchanges=opened)


@case(
    "share.leaders.node-endpoints",
    title="The new leader stands in the answer of ShareFetch",
    level=Level.SHOULD,
    rule="An answer with NOT_LEADER_OR_FOLLOWER names the new leader and its address: the client can go there at once.",
    source=Source("KIP-951", "Proposed Changes", "KIP-932 ShareFetch API, CurrentLeader and NodeEndpoints"),
    needs=("share",),
    cluster=_TWO_NODES,
)
def node_endpoints(run: CaseRun) -> None:
    """The leadership of orders-0 moves, and Metadata names the old leader for ever."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    old = run.cluster.describe_topic("orders").partitions[0].leader
    run.cluster.faults.add("Metadata", stale=True, optional=True)
    run.cluster.move_leader("orders", 0)
    run.produce("orders", "first")

    polls = QuietPolls(consumer)
    polls.until(run, bool, timeout_s=3)

    refused = run.wire.requests("ShareFetch", node=old).answered(error="NOT_LEADER_OR_FOLLOWER")
    at_new = run.wire.requests("ShareFetch", node=1 - old)
    seen = polls.values or f"{len(refused)} ShareFetch at the old leader, {len(at_new)} at the new one"
    exchanges = [*refused[:2], *at_new[:1]]
    run.expect(polls.values == ["first"], "the record of the new leader", seen=seen, exchanges=exchanges)


@case(
    "share.leaders.node-stopped",
    title="The leader's node stops",
    level=Level.MUST,
    rule="When the leader's node is gone the client finds the new leader, and goes on there with a new session.",
    source=Source("KIP-932", "Share sessions"),
    needs=("share",),
    cluster=ClusterPlan(nodes=3, topics={"orders": 1}),
)
def node_stopped(run: CaseRun) -> None:
    """The node that leads orders-0, and does not coordinate the group, is stopped while a member polls."""
    old = (run.cluster.coordinator("shop") + 1) % 3
    _lead(run, old)
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    stopped = run.wire.requests()[-1].number
    run.cluster.stop_node(old)
    run.produce("orders", "first")

    values = consumer.poll_until(records=1).values

    opened = run.wire.requests("ShareFetch", after=stopped)
    run.expect(values == ["first"], "the record arrives", seen=values, exchanges=opened)


@case(
    "share.leaders.back-again",
    title="The leader moves away and back",
    level=Level.MUST,
    rule="The session at a node continues with its epochs, or is opened again with epoch 0, when the node leads again.",
    source=Source("KIP-932", "Share sessions"),
    needs=("share",),
    cluster=_TWO_NODES,
)
def back_again(run: CaseRun) -> None:
    """The leadership of orders-0 moves to the other node and back, with a record delivered at each place."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    for value in ("first", "second", "third"):
        run.produce("orders", value)
        consumer.poll_until(lambda seen, wanted=value: wanted in seen.values)  # type: ignore[misc]
        consumer.poll(timeout_ms=200)  # Sends the acknowledgement.
        run.cluster.move_leader("orders", 0)

    refused = run.wire.requests("ShareFetch").answered(error="INVALID_SHARE_SESSION_EPOCH")
    run.expect(not refused, "no request with a wrong epoch", seen=refused, exchanges=refused)


@case(
    "share.leaders.fetch-from-leaders",
    title="Partitions are fetched from their leaders",
    level=Level.MUST,
    rule="The share-partition leader delivers the records: a ShareFetch names only partitions that its node leads.",
    source=Source("KIP-932", "Share groups and share-partitions, share-partition leader"),
    needs=("share",),
    cluster=ClusterPlan(nodes=3, topics={"orders": 6}),
    on_kafka=True,
)
def fetch_from_leaders(run: CaseRun) -> None:
    """No fault: six partitions with leaders on three nodes, and a record in each."""
    consumer = join(run, "orders")
    for partition in range(6):
        run.produce("orders", f"value-{partition}", partition=partition)
    values = consumer.poll_until(records=6).values

    fetches = run.wire.requests("ShareFetch")
    refused = fetches.answered(error="NOT_LEADER_OR_FOLLOWER")
    expected = [f"value-{partition}" for partition in range(6)]
    run.expect(sorted(map(str, values)) == expected, "all records", seen=values, exchanges=fetches)
    run.expect(not refused, "no NOT_LEADER_OR_FOLLOWER", seen=f"{len(refused)}", exchanges=refused)


def _lead(run: CaseRun, node: int) -> None:
    """Make a node the leader of orders-0."""
    if run.cluster.describe_topic("orders").partitions[0].leader != node:
        run.cluster.move_leader("orders", 0, to=node)
