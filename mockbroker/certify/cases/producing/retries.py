"""Errors of Produce that the client retries."""

from __future__ import annotations

from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import (
    acknowledged,
    not_idempotent,
    require_version,
    send_error,
    sent_batches,
)
from mockbroker.certify.driver.messages import SendRecord

#: How often a client may try before it asks: its timers for retries and for metadata run at the same time.
_ATTEMPTS_MAX = 2
#: How long the case waits for a Metadata request, seconds; some clients send none until the last answer is 5 s old.
_REFRESHED_S = 7.0
_ONE = ClusterPlan(topics={"orders": 1})


def refused_once(
    code: str, name: str, *, level: Level = Level.MUST, quick: bool = False, first_version: int = 0
) -> Case:
    """A case in which the first Produce request is refused with a retriable error. first_version: that can have it."""

    @acknowledged
    def play(run: CaseRun) -> None:
        run.cluster.faults.add("Produce", times=1, error=code)

        [delivery] = run.acked_producer().send("orders", "first")

        require_version(run, run.wire.requests("Produce"), first_version, code)
        refused, *retried = run.wire.requests("Produce")
        values = [record.value for record in run.cluster.read("orders")]
        run.expect(delivery.error is None, "the record is delivered by a retry", seen=delivery.error, exchanges=refused)
        run.expect(len(retried) == 1, "one more Produce request", seen=f"{len(retried)}", exchanges=[refused, *retried])
        run.expect(values == [b"first"], "the record stands once in the log", seen=values, exchanges=retried)

    play.__doc__ = f"The first Produce request is answered with {code}, and nothing is appended."
    return case(
        f"producing.retries.{name}",
        title=f"Produce is refused once with {code}",
        level=level,
        rule=f"{code} is retriable: the producer sends the batch again, and the application sees no error.",
        source=Source("Kafka protocol guide", "Error Codes", "kafka-clients ProducerConfig.RETRIES_CONFIG, Callback"),
        needs=("producer",),
        cluster=_ONE,
        quick=quick,
        decided_by=("Produce",),
    )(play)


not_leader = refused_once("NOT_LEADER_OR_FOLLOWER", "not-leader", quick=True)
unknown_topic = refused_once("UNKNOWN_TOPIC_OR_PARTITION", "unknown-topic")
leader_not_available = refused_once("LEADER_NOT_AVAILABLE", "leader-not-available")
# Source: KIP-112, "Public Interfaces".
storage_error = refused_once("KAFKA_STORAGE_ERROR", "storage-error", first_version=4)
not_enough_replicas = refused_once("NOT_ENOUGH_REPLICAS", "not-enough-replicas")
request_timed_out = refused_once("REQUEST_TIMED_OUT", "request-timed-out")
corrupt_message = refused_once("CORRUPT_MESSAGE", "corrupt-message", level=Level.SHOULD)


@case(
    "producing.retries.not-leader-refreshes",
    title="Metadata is refreshed after NOT_LEADER_OR_FOLLOWER",
    level=Level.SHOULD,
    rule="The error says that metadata are out of date: the client soon requests new ones.",
    source=Source(
        "Kafka protocol guide", "Partitioning and bootstrapping", "kafka-clients NotLeaderOrFollowerException"
    ),
    needs=("producer",),
    cluster=_ONE,
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def not_leader_refreshes(run: CaseRun) -> None:
    """Produce is answered with NOT_LEADER_OR_FOLLOWER until Metadata is requested after that; no leader has moved."""
    fault = run.cluster.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER")
    producer = run.acked_producer()
    sending = run.in_background(lambda: send_error(producer, "orders", "first", timeout_ms=10_000))
    first = run.wire.wait_for_request("Produce", error="NOT_LEADER_OR_FOLLOWER")[0]
    refreshed = list(run.find_request("Metadata", after=first, timeout_s=_REFRESHED_S) or ())
    fault.remove()

    error = sending.result()

    produced = run.wire.requests("Produce")
    attempts = [each for each in produced if not refreshed or each.number < refreshed[0].number]
    run.expect(
        refreshed and len(attempts) <= _ATTEMPTS_MAX,
        f"a Metadata request after the error, before more than {_ATTEMPTS_MAX} attempts",
        seen=f"{len(attempts)} Produce requests {'before it' if refreshed else 'without one'}",
        exchanges=[*attempts, *refreshed[:1]],
    )
    run.expect(error is None, "the record is delivered then", seen=error, exchanges=produced)


@case(
    "producing.retries.after-append",
    title="Produce is refused with NOT_ENOUGH_REPLICAS_AFTER_APPEND, and was appended",
    level=Level.MUST,
    rule="The error is retriable, and the retry of an idempotent producer is recognized as a duplicate.",
    source=Source(
        "KIP-98", "Idempotent Producer Guarantees", "kafka-clients NotEnoughReplicasAfterAppendException, Callback"
    ),
    needs=("producer.idempotence",),
    cluster=_ONE,
    decided_by=("Produce",),
)
@acknowledged
def after_append(run: CaseRun) -> None:
    """The first Produce request is appended, and answered with NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
    run.cluster.faults.add("Produce", times=1, after=True, error="NOT_ENOUGH_REPLICAS_AFTER_APPEND")

    [delivery] = run.producer(idempotence=True, acks="all").send("orders", "first")

    produced = run.wire.requests("Produce")
    values = [record.value for record in run.cluster.read("orders")]
    run.expect(delivery.error is None, "the record is delivered", seen=delivery.error, exchanges=produced)
    run.expect(values == [b"first"], "the record stands once in the log", seen=values, exchanges=produced)
    run.expect(len(produced) == 2, "one retry", seen=f"{len(produced) - 1}", exchanges=produced)


@case(
    "producing.retries.one-partition",
    title="One of two partitions is refused",
    level=Level.SHOULD,
    rule="Each partition has its own error: a producer retries only the batch that was refused.",
    source=Source("Kafka protocol guide", "Produce API", "kafka-clients ProducerConfig.RETRIES_CONFIG"),
    needs=("producer",),
    cluster=ClusterPlan(topics={"orders": 2}),
    decided_by=("Produce",),
)
@acknowledged
def one_partition(run: CaseRun) -> None:
    """The first batch for partition 0 is answered with NOT_LEADER_OR_FOLLOWER; partition 1 is appended."""
    run.cluster.faults.add("Produce", partition=0, times=1, error="NOT_LEADER_OR_FOLLOWER")
    producer = run.acked_producer(linger_ms=50) if run.has_setting("linger_ms") else run.acked_producer()

    deliveries = producer.send("orders", *(_record(value, partition) for partition, value in enumerate(["a", "b"])))

    produced = run.wire.requests("Produce")
    values = [[each.value for each in run.cluster.read("orders", partition=partition)] for partition in (0, 1)]
    run.expect(
        not any(each.error for each in deliveries), "both records are delivered", seen=deliveries, exchanges=produced
    )
    run.expect(values == [[b"a"], [b"b"]], "each record stands once in the log", seen=values, exchanges=produced)
    count = len(sent_batches(produced, 1))
    run.expect(count == 1, "the batch of partition 1 is sent once", seen=f"{count} times", exchanges=produced)


def _record(value: str, partition: int) -> SendRecord:
    return SendRecord(value=value, partition=partition)


@case(
    "producing.retries.none",
    title="A producer with retries=0",
    level=Level.MUST,
    rule="With retries=0 a batch is sent once, and its retriable error is reported to the application.",
    source=Source("Kafka documentation", "retries", "kafka-clients ProducerConfig.RETRIES_CONFIG"),
    needs=("producer",),
    settings_needed=("retries",),
    cluster=_ONE,
    decided_by=("Produce",),
)
@acknowledged
def no_retries(run: CaseRun) -> None:
    """The first Produce request is answered with NOT_ENOUGH_REPLICAS."""
    run.cluster.faults.add("Produce", times=1, error="NOT_ENOUGH_REPLICAS")

    [delivery] = run.acked_producer(**not_idempotent(run, retries=0)).send("orders", "first")

    produced = run.wire.requests("Produce")
    name = delivery.error.name if delivery.error else None
    run.expect(name == "NOT_ENOUGH_REPLICAS", "the error of the broker", seen=delivery.error, exchanges=produced)
    run.expect(len(produced) == 1, "one Produce request", seen=f"{len(produced)}", exchanges=produced)
