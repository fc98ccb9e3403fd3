"""Positions: seeking, pausing, times, and which leader is asked."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.fetching.reading import Reading, read_count, read_until
from mockbroker.certify.driver.handles import ConsumerHandle
from mockbroker.certify.seen_values import describe_seen

#: The first versions of Fetch with a preferred read replica (KIP-392) and with topic ids (KIP-516).
_FETCH_FROM_FOLLOWERS = 11
_FETCH_BY_TOPIC_ID = 13


@case(
    "fetching.positions.seek",
    title="The application seeks while records are buffered",
    level=Level.MUST,
    rule="After a seek the next records are those from the new position on; buffered ones are dropped.",
    source=Source(
        "kafka-clients documentation", "Controlling The Consumer's Position", "kafka-clients KafkaConsumer.seek"
    ),
    needs=("consumer.assign", "consumer.seek"),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("Fetch",),
)
def seek(run: CaseRun) -> None:
    """No fault: of twenty records three are polled, then the application seeks to offset 1."""
    run.produce("orders", *(f"record {number}" for number in range(20)))
    consumer = run.consumer()
    consumer.assign(("orders", 0, "earliest"))
    consumer.poll_until(records=3, max_records=3)
    consumer.seek("orders", 0, 1)

    polled = consumer.poll_until(records=1)

    run.expect(polled.offsets[0] == 1, "the record at offset 1", seen=polled.offsets[:3])


@case(
    "fetching.positions.paused",
    title="A paused partition",
    level=Level.MUST,
    rule="While a partition is paused its records are not returned; after it is resumed none is missing.",
    source=Source("kafka-clients documentation", "Consumption Flow Control", "kafka-clients KafkaConsumer.pause"),
    needs=("consumer.assign", "consumer.pause"),
    cluster=ClusterPlan(topics={"orders": 2}),
    on_kafka=True,
    decided_by=("Fetch",),
)
def paused(run: CaseRun) -> None:
    """No fault: orders-0 is paused, records are appended to both partitions, then it is resumed."""
    consumer = run.consumer()
    consumer.assign(("orders", 0, "earliest"), ("orders", 1, "earliest"))
    run.produce("orders", "a", partition=0)
    run.produce("orders", "b", partition=1)
    consumer.poll_until(records=2)
    consumer.pause(("orders", 0))
    run.produce("orders", "c", partition=0)
    run.produce("orders", "d", partition=1)
    during = consumer.poll_until(records=1)
    during.records.extend(consumer.poll(timeout_ms=300).records)
    run.expect(during.values == ["d"], "only the record of orders-1 during the pause", seen=during.values)
    consumer.resume(("orders", 0))

    after = consumer.poll_until(records=1)

    run.expect(after.values == ["c"], "the record of orders-0 afterwards", seen=after.values)


@case(
    "fetching.positions.leader-moved",
    title="The leader moves between two records",
    level=Level.MUST,
    rule="After a change of leader the consumer goes on at the same position; no record is lost or doubled.",
    source=Source("KIP-320", "Consumer handling", "kafka-clients NotLeaderOrFollowerException"),
    needs=("consumer.assign",),
    cluster=ClusterPlan(nodes=2, topics={"orders": 1}),
    quick=True,
    decided_by=("Fetch",),
)
def leader_moved(run: CaseRun) -> None:
    """The other node becomes the leader of orders-0 after one record."""
    run.produce("orders", "first")
    consumer = run.consumer()
    consumer.assign(("orders", 0, "earliest"))
    consumer.poll_until(records=1)
    before = run.wire.requests("Fetch", topic="orders")[0].node_id
    run.cluster.move_leader("orders", 0)
    run.produce("orders", "second")

    reading = read_count(run, consumer, 1)

    moved = [each for each in run.wire.requests("Fetch", topic="orders") if each.node_id != before]
    run.expect(
        reading.values == ["second"],
        "the next record, once",
        seen=reading.values,
        exchanges=moved or run.last_exchanges("Fetch"),
    )
    run.should(not reading.errors, "no error for the application", seen=reading.errors)
    if not moved:
        run.note("the client reads from the old leader, which serves consumers as a follower (KIP-392)")


@case(
    "fetching.positions.preferred-replica",
    title="The leader names a replica to read from",
    level=Level.MUST,
    rule="A consumer with client.rack fetches from the preferred read replica that the leader has named.",
    source=Source("KIP-392", "Follower Fetching, Consumer"),
    needs=("consumer.assign",),
    settings_needed=("client_rack",),
    cluster=ClusterPlan(nodes=2, topics={"orders": 1}),
    decided_by=("Fetch",),
)
def preferred_replica(run: CaseRun) -> None:
    """The first Fetch response of the leader names the other node, without records."""
    run.produce("orders", "first")
    leader = run.cluster.describe_topic("orders").partitions[0].leader
    assert leader is not None
    other = 1 - leader
    run.cluster.faults.add(
        "Fetch",
        node=leader,
        topic="orders",
        times=1,
        set_fields={"responses.partitions.preferred_read_replica": other, "responses.partitions.records": ""},
    )
    consumer = run.consumer(client_rack="b")
    consumer.assign(("orders", 0, "earliest"))
    polled = consumer.poll_until(records=1)
    named = run.wire.requests("Fetch", node=leader, topic="orders")[0]
    if named.api_version < _FETCH_FROM_FOLLOWERS:
        run.not_exercised(
            f"the client sends Fetch {named.api_version}: "
            f"brokers name a preferred read replica from version {_FETCH_FROM_FOLLOWERS} on"
        )
    expected = f"a Fetch request to node {other}"
    run.poll_for(consumer, lambda: run.wire.requests("Fetch", node=other), expected, timeout_s=2, into=polled)

    run.expect(polled.values == ["first"], "the record, once", seen=polled.values)


def _read_value(run: CaseRun, consumer: ConsumerHandle, value: str, expected: str) -> Reading:
    """Poll until a value has come, also after errors. Raises: ExpectationFailed if it has not within 10 seconds."""
    reading = read_until(run, consumer, lambda reading: value in reading.values)
    run.expect(value in reading.values, expected, seen=f"{describe_seen(reading.values)} within 10 s")
    return reading


@case(
    "fetching.positions.topic-recreated",
    title="A topic is deleted and made again with the same name",
    level=Level.MUST,
    rule="A topic that is made again has another id: the client learns it from metadata, and uses it.",
    source=Source("KIP-516", "Fetch, Client changes"),
    needs=("consumer.assign",),
    settings_needed=("auto_offset_reset", "metadata_max_age_ms"),
    cluster=ClusterPlan(topics={"orders": 1}, properties={"auto.create.topics.enable": False}),
    decided_by=("Fetch",),
)
def topic_recreated(run: CaseRun) -> None:
    """The topic is deleted and made again while the consumer reads it; the new log has three records."""
    run.produce("orders", "old")
    consumer = run.consumer(auto_offset_reset="earliest", metadata_max_age_ms=300)
    consumer.assign(("orders", 0, "earliest"))
    consumer.poll_until(records=1)
    version = run.wire.requests("Fetch")[-1].api_version
    if version < _FETCH_BY_TOPIC_ID:
        run.not_exercised(f"the client sends Fetch {version}, which names topics: ids come with {_FETCH_BY_TOPIC_ID}")
    last_id = run.wire.requests("Metadata")[-1].number
    run.cluster.delete_topic("orders")
    run.cluster.create_topic("orders", 1)
    run.produce("orders", "new 0", "new 1", "new 2")

    values = _read_value(run, consumer, "new 2", "the records of the new topic").values

    run.expect("old" not in values, "no record of the deleted topic", seen=values)
    run.should(run.wire.requests("Metadata", after=last_id), "metadata is refreshed", seen="no Metadata request")


@case(
    "fetching.positions.truncated",
    title="The log was truncated by an unclean election",
    level=Level.SHOULD,
    rule="A consumer checks its position by leader epoch, so that it reads what the new leader has at its offsets.",
    source=Source("KIP-320", "Consumer handling, OffsetsForLeaderEpoch"),
    needs=("consumer.assign",),
    settings_needed=("auto_offset_reset", "metadata_max_age_ms"),
    cluster=ClusterPlan(
        nodes=2, topics={"orders": 1}, properties={"unclean.leader.election.enable": True, "min.insync.replicas": 1}
    ),
    timeout_s=30,
    decided_by=("Fetch",),
)
def truncated(run: CaseRun) -> None:
    """The leader alone has two records when it is killed; the other node leads without them, and appends others."""
    leader = run.cluster.describe_topic("orders").partitions[0].leader
    assert leader is not None
    other = 1 - leader
    run.produce("orders", "both")
    run.cluster.stop_node(other)
    run.produce("orders", "lost 1", "lost 2")
    consumer = run.consumer(auto_offset_reset="earliest", metadata_max_age_ms=300)
    consumer.assign(("orders", 0, "earliest"))
    consumer.poll_until(records=3)
    run.cluster.kill_node(leader)
    run.cluster.start_node(other)
    run.wire.wait_until(lambda: run.cluster.describe_topic("orders").partitions[0].leader == other)
    run.produce("orders", "new 1", "new 2", "new 3")

    values = _read_value(run, consumer, "new 3", "the records of the new leader").values

    checked = run.find_request("OffsetForLeaderEpoch", timeout_s=0.5)
    run.expect(
        {"new 1", "new 2"} <= set(values),
        "the records that replaced those that were read and lost",
        seen=values,
        exchanges=checked or run.wire.requests("Fetch", node=other),
    )
