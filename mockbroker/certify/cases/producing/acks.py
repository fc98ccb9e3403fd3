"""Acknowledgements: acks 0, 1 and all, and what the request says."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import not_idempotent, send_error, sent_batches

_ONE = ClusterPlan(topics={"orders": 1})
_ACKS = Source("Kafka documentation", "acks", "kafka-clients ProducerConfig.ACKS_CONFIG")


@case(
    "producing.acks.zero",
    title="A producer with acks=0",
    level=Level.MUST,
    rule="With acks=0 the request has acks 0, the client does not wait for an answer, and the offset is not known.",
    source=_ACKS,
    needs=("producer",),
    settings_needed=("acks",),
    cluster=_ONE,
    on_kafka=True,
    decided_by=("Produce",),
)
def zero(run: CaseRun) -> None:
    """The broker appends the records and sends no answer."""
    producer = run.producer(**not_idempotent(run, acks=0))

    deliveries = [producer.send("orders", value)[0] for value in ("first", "second")]
    run.wire.wait_until(lambda: len(sent_batches(run.wire.requests("Produce"))) == 2)

    produced = run.wire.requests("Produce")
    errors = [each.error for each in deliveries]
    run.expect(not any(errors), "no error", seen=errors, exchanges=produced)
    acks = {each.request.acks for each in produced}
    run.expect(acks == {0}, "acks 0 in each request", seen=acks, exchanges=produced)
    run.should(
        all(each.offset == -1 for each in deliveries),
        "the offset -1: it is not known",
        seen=[each.offset for each in deliveries],
        exchanges=produced,
    )


@case(
    "producing.acks.zero-closed",
    title="The broker closes the connection of a producer with acks=0",
    level=Level.MUST,
    rule="A broker shows an error of a request with acks=0 by closing the connection: the client connects again.",
    source=Source("Kafka documentation", "acks", "Kafka protocol guide, Produce API"),
    needs=("producer",),
    settings_needed=("acks",),
    cluster=_ONE,
    decided_by=("Produce",),
)
def zero_closed(run: CaseRun) -> None:
    """The second Produce request closes the connection; the client sends up to ten more records."""
    run.cluster.faults.add("Produce", first=2, times=1, drop="close")
    producer = run.producer(**not_idempotent(run, acks=0))
    for count, value in ((1, "first"), (2, "lost")):
        producer.send("orders", value)
        run.wire.wait_for_request("Produce", count=count)

    for number in range(10):  # A record that is written into the closing connection is lost, as acks=0 allows.
        send_error(producer, "orders", f"third {number}")
        arrived = run.find_request("Produce", count=3, timeout_s=0.5)
        if arrived:
            break

    sent = run.wire.requests("Produce")
    run.expect(arrived, "records arrive on another connection", seen=f"{len(sent)} requests", exchanges=sent)
    connections = [each.connection_id for each in sent]
    run.expect(connections[2] != connections[1], "another connection", seen=connections, exchanges=sent)


@case(
    "producing.acks.one",
    title="A producer with acks=1",
    level=Level.MUST,
    rule="With acks=1 the request has acks 1, and the delivery has the offset of the answer.",
    source=_ACKS,
    needs=("producer",),
    settings_needed=("acks",),
    cluster=_ONE,
    on_kafka=True,
    decided_by=("Produce",),
)
def one(run: CaseRun) -> None:
    """The broker appends two records, one after the other."""
    producer = run.producer(**not_idempotent(run, acks=1))

    offsets = [producer.send("orders", value)[0].offset for value in ("first", "second")]

    produced = run.wire.requests("Produce")
    acks = {each.request.acks for each in produced}
    run.expect(acks == {1}, "acks 1 in each request", seen=acks, exchanges=produced)
    run.expect(offsets == [0, 1], "offsets 0 and 1", seen=offsets, exchanges=produced)


@case(
    "producing.acks.all",
    title="A producer with acks=all",
    level=Level.MUST,
    rule="With acks=all the request has acks -1.",
    source=_ACKS,
    needs=("producer",),
    settings_needed=("acks",),
    cluster=_ONE,
    on_kafka=True,
    quick=True,
    decided_by=("Produce",),
)
def all_replicas(run: CaseRun) -> None:
    """The broker appends a record."""
    error = send_error(run.producer(acks="all"), "orders", "first")

    produced = run.wire.requests("Produce")
    acks = {each.request.acks for each in produced}
    run.expect(error is None, "the record is delivered", seen=error, exchanges=produced)
    run.expect(acks == {-1}, "acks -1 in each request", seen=acks, exchanges=produced)


@case(
    "producing.acks.in-sync-again",
    title="Too few replicas are in sync for a time",
    level=Level.MUST,
    rule="NOT_ENOUGH_REPLICAS is retriable: the producer sends the batch until enough replicas are in sync.",
    source=Source("Kafka documentation", "min.insync.replicas", "kafka-clients NotEnoughReplicasException, Callback"),
    needs=("producer",),
    settings_needed=("acks",),
    cluster=ClusterPlan(nodes=2, topics={"orders": 1}, properties={"min.insync.replicas": 2}),
    decided_by=("Produce",),
)
def in_sync_again(run: CaseRun) -> None:
    """The follower is stopped, and starts again after the first refused Produce request."""
    leader = run.cluster.describe_topic("orders").partitions[0].leader
    run.cluster.stop_node(1 - leader)
    producer = run.producer(acks="all")
    sending = run.in_background(lambda: producer.send("orders", "first"))
    run.wire.wait_for_request("Produce", error="NOT_ENOUGH_REPLICAS")
    run.cluster.start_node(1 - leader)

    [delivery] = sending.result()

    run.expect(delivery.error is None, "the record is delivered", seen=delivery.error)
