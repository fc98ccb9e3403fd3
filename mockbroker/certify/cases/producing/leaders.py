"""Leaders of partitions that change: with and without hints (KIP-951), controlled, crashed, and absent for a time."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import acknowledged, asks_for, require_version
from mockbroker.certify.driver.handles import ProducerHandle

_TWO = ClusterPlan(nodes=2, topics={"orders": 1})
#: The first versions of Produce with hints (KIP-951) and with topic ids (KIP-516).
_HINTS_SINCE = 10
_TOPIC_IDS_SINCE = 13
#: The first version of Metadata with leader epochs (KIP-320).
_EPOCHS_SINCE = 7
_BOOTSTRAPPING = Source("Kafka protocol guide", "Partitioning and bootstrapping", "kafka-clients Callback.onCompletion")


def _leader(run: CaseRun) -> int:
    return run.cluster.describe_topic("orders").partitions[0].leader


def _send(run: CaseRun, producer: ProducerHandle, value: str) -> None:
    [delivery] = producer.send("orders", value)
    produced = run.wire.requests("Produce")
    run.expect(delivery.error is None, f"the record {value!r} is delivered", seen=delivery.error, exchanges=produced)


@case(
    "producing.leaders.moved",
    title="The leader moves to another node",
    level=Level.MUST,
    rule="A producer that is refused with NOT_LEADER_OR_FOLLOWER finds the new leader, and sends the batch there.",
    source=_BOOTSTRAPPING,
    needs=("producer",),
    cluster=_TWO,
    quick=True,
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def moved(run: CaseRun) -> None:
    """After the first record, the other node becomes the leader."""
    producer = run.acked_producer()
    _send(run, producer, "first")
    run.cluster.move_leader("orders", 0)

    _send(run, producer, "second")

    last = run.wire.requests("Produce")[-1]
    leader = _leader(run)
    run.expect(last.node_id == leader, f"Produce to node {leader}", seen=f"node {last.node_id}", exchanges=last)


@case(
    "producing.leaders.moved-without-hint",
    title="The leader moves, and the answer has no hint",
    level=Level.MUST,
    rule="Without the new leader in the answer, the client requests metadata, and sends the batch there.",
    source=_BOOTSTRAPPING,
    needs=("producer",),
    cluster=ClusterPlan(nodes=2, topics={"orders": 1}, versions={"Produce": 9}),
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def moved_without_hint(run: CaseRun) -> None:
    """The broker has Produce up to version 9, without hints; the leader moves after the first record."""
    producer = run.acked_producer()
    _send(run, producer, "first")
    run.cluster.move_leader("orders", 0)

    _send(run, producer, "second")

    refused = run.wire.requests("Produce").answered(error="NOT_LEADER_OR_FOLLOWER")
    if not refused:
        run.not_exercised("the client has sent nothing to the old leader after the move: it was not refused")
    asked = run.find_request("Metadata", after=refused[0])
    run.expect(asked, "a Metadata request after the error", seen="none", exchanges=refused)
    run.note(f"{len(refused)} attempts at the old leader")


@case(
    "producing.leaders.hint-used",
    title="The new leader stands in the answer of Produce, and metadata are still old",
    level=Level.SHOULD,
    rule="The client takes the new leader from the answer (Produce 10), and does not go back to an older leader epoch.",
    source=Source("KIP-951", "Proposed Changes"),
    needs=("producer",),
    cluster=_TWO,
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def hint_used(run: CaseRun) -> None:
    """The leader moves after the first record. For 1.5 seconds Metadata answers have the old leader and epoch."""
    producer = run.acked_producer()
    _send(run, producer, "first")
    run.cluster.faults.add("Metadata", stale=True, until_ms=1500, optional=True)
    run.cluster.move_leader("orders", 0)

    _send(run, producer, "second")

    produced = run.wire.requests("Produce")
    require_version(run, produced, _HINTS_SINCE, "the new leader")
    refused = produced.answered(error="NOT_LEADER_OR_FOLLOWER")
    if not refused:
        run.not_exercised("the client has sent nothing to the old leader after the move: it got no hint")
    run.expect(len(refused) <= 1, "one attempt at the old leader", seen=f"{len(refused)} attempts", exchanges=refused)


@case(
    "producing.leaders.older-epoch-ignored",
    title="Metadata with an older leader epoch",
    level=Level.SHOULD,
    rule="A client that has seen a leader epoch does not take an older leader from the metadata of a node that lags.",
    source=Source("KIP-320", "Leader Epoch Validation / Metadata"),
    needs=("producer",),
    cluster=_TWO,
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def older_epoch_ignored(run: CaseRun) -> None:
    """When the client has produced to a new leader, Metadata answers have the old one and its epoch for 1.5 seconds.

    The next record is sent when the client asks again after such an answer: then it has read it.
    """
    old = _leader(run)
    producer = run.acked_producer(metadata_max_age_ms=300)
    _send(run, producer, "first")
    run.cluster.move_leader("orders", 0)
    _send(run, producer, "second")
    run.find_request("Metadata", after=run.wire.requests("Produce")[-1], where=asks_for("orders"), answered=True)
    rows = {"topics.partitions.leader_id": old, "topics.partitions.leader_epoch": 0}
    run.cluster.faults.add("Metadata", topic="orders", set_fields=rows, until_ms=1500, optional=True)
    seen = run.cluster.journal.last_number
    found = run.find_request("Metadata", after=seen, where=asks_for("orders"), answered=True, count=2, timeout_s=1.2)
    stale = list(found or ())

    [delivery] = producer.send("orders", "third")

    produced = run.wire.requests("Produce", after=seen)
    refused = produced.answered(error="NOT_LEADER_OR_FOLLOWER")
    run.expect(delivery.error is None, "the record is delivered", seen=delivery.error, exchanges=[*stale, *produced])
    run.expect(not refused, "no Produce to the old leader", seen=f"{len(refused)}", exchanges=[*stale, *refused])
    require_version(run, run.wire.requests("Metadata"), _EPOCHS_SINCE, "leader epochs")
    if not any(each.arrived_ns < produced[0].arrived_ns for each in run.wire.requests("Metadata", after=seen)):
        run.not_exercised("the client has not asked for metadata while they were old")


@case(
    "producing.leaders.stopped",
    title="The leader's node is stopped",
    level=Level.MUST,
    rule="When the connection to a leader ends, the client finds the leader that took over, and sends the batch there.",
    source=_BOOTSTRAPPING,
    needs=("producer",),
    cluster=_TWO,
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def stopped(run: CaseRun) -> None:
    """After the first record, the leader's node is stopped: leadership moves to the other node, connections close."""
    producer = run.acked_producer()
    _send(run, producer, "first")
    run.cluster.stop_node(_leader(run))

    _send(run, producer, "second")

    values = [record.value for record in run.cluster.read("orders")]
    produced = run.wire.requests("Produce")
    run.expect(values == [b"first", b"second"], "both records stand in the log", seen=values, exchanges=produced)


@case(
    "producing.leaders.crashed",
    title="The leader's node crashes while a record is sent",
    level=Level.MUST,
    rule="While a partition has no leader, the client keeps the batch, and sends it to the next leader.",
    source=_BOOTSTRAPPING,
    needs=("producer",),
    cluster=ClusterPlan(nodes=3, topics={"orders": 1}),
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def crashed(run: CaseRun) -> None:
    """The leader is killed. Another node is elected when the client has then asked for metadata, or after a second."""
    producer = run.acked_producer()
    _send(run, producer, "first")
    run.cluster.kill_node(_leader(run))
    seen = run.cluster.journal.last_number
    sending = run.in_background(lambda: producer.send("orders", "second"))
    run.find_request("Metadata", after=seen, timeout_s=1)
    run.cluster.clock.advance(9_000)

    [delivery] = sending.result()

    values = [record.value for record in run.cluster.read("orders")]
    sent = [*run.wire.requests("Metadata", after=seen), *run.wire.requests("Produce", after=seen)]
    run.expect(delivery.error is None, "the record is delivered", seen=delivery.error, exchanges=sent)
    run.expect(values == [b"first", b"second"], "both records stand in the log", seen=values, exchanges=sent)


@case(
    "producing.leaders.none-for-a-time",
    title="A partition has no leader for a time",
    level=Level.MUST,
    rule="LEADER_NOT_AVAILABLE in Metadata is retriable: the client asks again until the partition has a leader.",
    source=Source("Kafka protocol guide", "Error Codes", "kafka-clients LeaderNotAvailableException"),
    needs=("producer",),
    cluster=ClusterPlan(nodes=2, topics={"orders": 1}, properties={"default.replication.factor": 1}),
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def none_for_a_time(run: CaseRun) -> None:
    """The only replica's node is down when the client sends; it starts after the second Metadata request."""
    leader = _leader(run)
    run.cluster.stop_node(leader)
    producer = run.acked_producer()
    sending = run.in_background(lambda: producer.send("orders", "first"))
    run.wire.wait_for_request("Metadata", where=asks_for("orders"), count=2, answered=True)
    run.cluster.start_node(leader)

    [delivery] = sending.result()

    asked = run.wire.requests("Metadata")
    run.expect(delivery.error is None, "the record is delivered", seen=delivery.error, exchanges=asked)


@case(
    "producing.leaders.topic-recreated",
    title="The topic is deleted and created again with another id",
    level=Level.SHOULD,
    rule="A client that is refused with UNKNOWN_TOPIC_ID takes the new id from metadata, and sends the batch with it.",
    source=Source("KIP-516", "Produce", "kafka-clients UnknownTopicIdException"),
    needs=("producer",),
    cluster=ClusterPlan(topics={"orders": 1}, properties={"auto.create.topics.enable": False}),
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def topic_recreated(run: CaseRun) -> None:
    """After the first record, the topic is deleted and created again."""
    producer = run.acked_producer()
    _send(run, producer, "first")
    run.cluster.delete_topic("orders")
    run.cluster.create_topic("orders")

    _send(run, producer, "second")

    values = [record.value for record in run.cluster.read("orders")]
    produced = run.wire.requests("Produce")
    run.expect(values == [b"second"], "the second record stands in the new topic", seen=values, exchanges=produced)
    require_version(run, produced, _TOPIC_IDS_SINCE, "UNKNOWN_TOPIC_ID")
