"""Idempotent producers: producer ids, sequences, and retries of batches that were appended."""

from __future__ import annotations

from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import (
    describe_producer,
    error_name,
    require_version,
    send_error,
    sent_batches,
    stored_values,
)
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.messages import ErrorInfo

_ONE = ClusterPlan(topics={"orders": 1})
_GUARANTEES = Source("KIP-98", "Idempotent Producer Guarantees")
#: With the start of the log the client recognizes that its state is lost, and not only not known at this moment.
_LOG_START: dict[str, int | str | bool | None] = {"responses.partition_responses.log_start_offset": 0}
#: The first version of Produce with it (KIP-107).
_LOG_START_SINCE = 5
_NEEDS = ("producer.idempotence",)


@case(
    "producing.idempotence.answer-lost",
    title="The connection ends after a batch was appended",
    level=Level.MUST,
    rule="An idempotent producer sends the batch again with the same producer id, epoch and sequence.",
    source=_GUARANTEES,
    needs=_NEEDS,
    cluster=_ONE,
    quick=True,
    decided_by=("Produce", "InitProducerId"),
)
def answer_lost(run: CaseRun) -> None:
    """The first Produce request is handled; instead of its answer the connection is closed."""
    run.cluster.faults.add("Produce", times=1, after=True, drop="close")

    [delivery] = run.producer(idempotence=True, acks="all").send("orders", "first")

    produced = run.wire.requests("Produce")
    values = [record.value for record in run.cluster.read("orders")]
    run.expect(delivery.error is None, "the record is delivered", seen=delivery.error, exchanges=produced)
    run.expect(values == [b"first"], "the record stands once in the log", seen=values, exchanges=produced)
    run.expect(delivery.offset == 0, "the offset of the first append", seen=delivery.offset, exchanges=produced)


@case(
    "producing.idempotence.sequences",
    title="Sequences of one partition",
    level=Level.MUST,
    rule="Batches have the producer id and epoch of InitProducerId, and sequences from 0 without gaps.",
    source=Source("KIP-98", "Message Format, Sequence numbers"),
    needs=_NEEDS,
    cluster=_ONE,
    on_kafka=True,
    decided_by=("Produce", "InitProducerId"),
)
def sequences(run: CaseRun) -> None:
    """Three sends of two records each; nothing fails."""
    producer = run.producer(idempotence=True, acks="all")

    errors = [send_error(producer, "orders", f"{number}a", f"{number}b") for number in range(3)]

    batches = sent_batches(run.wire.requests("Produce"))
    given = run.wire.requests("InitProducerId")[-1]
    producers = {each.producer for each in batches}
    expected, following = [], 0
    for each in batches:
        expected.append((following, each.batch.count))
        following += each.batch.count
    run.expect(errors == [None] * 3, "all records are delivered", seen=errors)
    run.expect(
        producers == {(given.response.producer_id, given.response.producer_epoch)},
        "the producer id and epoch of InitProducerId",
        seen=producers,
        exchanges=[given, *(each.exchange for each in batches)],
    )
    seen = [each.sequences for each in batches]
    run.expect(seen == expected and following == 6, "sequences from 0 to 5", seen=seen)


@case(
    "producing.idempotence.sequences-by-partition",
    title="Sequences of two partitions",
    level=Level.MUST,
    rule="Each partition has its own sequence, from 0.",
    source=Source("KIP-98", "Message Format, Sequence numbers"),
    needs=_NEEDS,
    cluster=ClusterPlan(topics={"orders": 2}),
    on_kafka=True,
    decided_by=("Produce", "InitProducerId"),
)
def sequences_by_partition(run: CaseRun) -> None:
    """One record for each of two partitions, twice."""
    producer = run.producer(idempotence=True, acks="all")

    for value, partition in (("a", 0), ("b", 1), ("c", 0), ("d", 1)):
        [delivery] = producer.send("orders", value, partition=partition)
        run.expect(delivery.error is None, "the record is delivered", seen=delivery.error)

    produced = run.wire.requests("Produce")
    for partition in (0, 1):
        seen = [each.batch.base_sequence for each in sent_batches(produced, partition)]
        run.expect(seen == [0, 1], f"sequences 0 and 1 in partition {partition}", seen=seen, exchanges=produced)


@case(
    "producing.idempotence.order-kept",
    title="A batch before many others is refused",
    level=Level.MUST,
    rule="An idempotent producer keeps the order of the records of a partition when batches are retried.",
    source=Source("Kafka documentation", "max.in.flight.requests.per.connection, enable.idempotence"),
    needs=_NEEDS,
    settings_needed=("batch_size",),
    cluster=_ONE,
    quick=True,
    decided_by=("Produce", "InitProducerId"),
)
def order_kept(run: CaseRun) -> None:
    """The second Produce request is answered with NOT_ENOUGH_REPLICAS; the batches behind it arrive without it."""
    run.cluster.faults.add("Produce", first=2, times=1, error="NOT_ENOUGH_REPLICAS")
    values = [f"{number:03}" + "x" * 100 for number in range(20)]
    producer = run.producer(idempotence=True, acks="all", batch_size=200)

    error = send_error(producer, "orders", values[0]) or send_error(producer, "orders", *values[1:])

    produced = run.wire.requests("Produce")
    stored = stored_values(run)
    run.note(f"{len(produced)} Produce requests")
    run.expect(error is None, "all records are delivered", seen=error, exchanges=produced)
    run.expect(stored == values, "each record once, in the order of the application", seen=[v[:3] for v in stored])


@case(
    "producing.idempotence.answers-lost",
    title="The connection ends with several batches in flight",
    level=Level.MUST,
    rule="Batches that were appended, and those that were not, are sent again in order; duplicates are recognized.",
    source=_GUARANTEES,
    needs=_NEEDS,
    settings_needed=("batch_size",),
    cluster=_ONE,
    decided_by=("Produce", "InitProducerId"),
)
def answers_lost(run: CaseRun) -> None:
    """The second and the fifth Produce request are handled; instead of their answers the connection is closed."""
    fault = run.cluster.faults.add("Produce", first=2, every=3, times=2, after=True, drop="close", optional=True)
    values = [f"{number:03}" + "x" * 100 for number in range(20)]

    error = send_error(run.producer(idempotence=True, acks="all", batch_size=200), "orders", *values)

    produced = run.wire.requests("Produce")
    stored = stored_values(run)
    run.expect(error is None, "all records are delivered", seen=error, exchanges=produced)
    run.expect(stored == values, "each record once, in the order of the application", seen=[v[:3] for v in stored])
    if not fault.hits:
        run.not_exercised("the client has sent one Produce request: no batch was behind it")


@case(
    "producing.idempotence.duplicate",
    title="Produce is answered with DUPLICATE_SEQUENCE_NUMBER",
    level=Level.MUST,
    rule="The answer says that the batch stands in the log already: it counts as delivered, and is not sent again.",
    source=Source("KIP-98", "Idempotent Producer Guarantees", "kafka-clients DuplicateSequenceException"),
    needs=_NEEDS,
    cluster=_ONE,
    decided_by=("Produce", "InitProducerId"),
)
def duplicate(run: CaseRun) -> None:
    """The first Produce request is appended, and answered with DUPLICATE_SEQUENCE_NUMBER."""
    run.cluster.faults.add("Produce", times=1, after=True, error="DUPLICATE_SEQUENCE_NUMBER")
    producer = run.producer(idempotence=True, acks="all")

    errors = [send_error(producer, "orders", value) for value in ("first", "second")]

    produced = run.wire.requests("Produce")
    stored = [record.value for record in run.cluster.read("orders")]
    run.expect(errors[0] is None, "the record counts as delivered", seen=errors[0], exchanges=produced)
    run.expect(errors[1] is None, "the next record is delivered", seen=errors[1], exchanges=produced)
    run.expect(stored == [b"first", b"second"], "each record once", seen=stored, exchanges=produced)


@case(
    "producing.idempotence.unknown-producer-id",
    title="The broker has lost the producer's state",
    level=Level.SHOULD,
    rule="On UNKNOWN_PRODUCER_ID an idempotent producer starts a new epoch with sequence 0, and sends the batch again.",
    source=Source("KIP-360", "Proposed Changes"),
    needs=_NEEDS,
    cluster=_ONE,
    decided_by=("Produce", "InitProducerId"),
)
def unknown_producer_id(run: CaseRun) -> None:
    """The second Produce request is answered with UNKNOWN_PRODUCER_ID."""
    run.cluster.faults.add("Produce", first=2, times=1, error="UNKNOWN_PRODUCER_ID", set_fields=_LOG_START)
    producer = run.producer(idempotence=True, acks="all")

    errors = [send_error(producer, "orders", value) for value in ("first", "second")]

    produced = run.wire.requests("Produce")
    batches = sent_batches(produced)
    require_version(run, produced, _LOG_START_SINCE, "the start of the log")
    run.expect(errors == [None, None], "both records are delivered", seen=errors, exchanges=produced)
    before, after = batches[1], batches[-1]
    run.expect(
        after.producer != before.producer and after.batch.base_sequence == 0,
        "the retry has another epoch and sequence 0",
        seen=describe_producer(after),
        exchanges=[before.exchange, after.exchange],
    )


def initialized_after(code: str, name: str) -> Case:
    """A case in which InitProducerId of an idempotent producer is refused once with a retriable error."""

    def play(run: CaseRun) -> None:
        run.cluster.faults.add("InitProducerId", times=1, error=code)

        error = send_error(run.producer(idempotence=True, acks="all"), "orders", "first")

        asked = run.wire.requests("InitProducerId")
        run.expect(error is None, "the record is delivered", seen=error, exchanges=asked)
        run.expect(len(asked) == 2, "InitProducerId is sent again", seen=f"{len(asked)} requests", exchanges=asked)

    play.__doc__ = f"The first InitProducerId request is answered with {code}."
    return case(
        f"producing.idempotence.{name}",
        title=f"InitProducerId is refused once with {code}",
        level=Level.MUST,
        rule=f"{code} is retriable: the producer asks for its id again before it sends records.",
        source=Source("Kafka protocol guide", "Error Codes", "KIP-98 InitProducerId"),
        needs=_NEEDS,
        cluster=_ONE,
        decided_by=("InitProducerId",),
    )(play)


id_while_loading = initialized_after("COORDINATOR_LOAD_IN_PROGRESS", "id-while-loading")


@case(
    "producing.idempotence.not-authorized",
    title="InitProducerId is refused with CLUSTER_AUTHORIZATION_FAILED",
    level=Level.MUST,
    rule="Without the right to be idempotent, records are not sent, and the application sees the error.",
    source=Source("KIP-98", "Authorization", "kafka-clients ClusterAuthorizationException"),
    needs=_NEEDS,
    cluster=_ONE,
    decided_by=("Produce", "InitProducerId"),
)
def not_authorized(run: CaseRun) -> None:
    """Each InitProducerId request is answered with CLUSTER_AUTHORIZATION_FAILED."""
    run.cluster.faults.add("InitProducerId", error="CLUSTER_AUTHORIZATION_FAILED")

    error = send_error(run.producer(idempotence=True, acks="all"), "orders", "first", timeout_ms=4000)

    asked = run.wire.requests("InitProducerId")
    name = error_name(error)
    run.wire.assert_never("Produce")
    run.expect(name not in (None, "LOCAL_TIMEOUT"), "the error, not a time-out", seen=error, exchanges=asked)
    run.should(name == "CLUSTER_AUTHORIZATION_FAILED", "its name", seen=error, exchanges=asked)


@case(
    "producing.idempotence.six-in-flight",
    title="An idempotent producer with max_in_flight=6",
    level=Level.SHOULD,
    rule="A broker recognizes duplicates among the last five batches: a client refuses six in flight, or sends no id.",
    source=Source(
        "Kafka documentation", "enable.idempotence", "kafka-clients ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG"
    ),
    needs=_NEEDS,
    settings_needed=("max_in_flight", "idempotence"),
    cluster=_ONE,
    decided_by=("Produce", "InitProducerId"),
)
def six_in_flight(run: CaseRun) -> None:
    """Nothing fails at the broker."""
    error: ErrorInfo | None
    try:
        error = send_error(run.producer(idempotence=True, acks="all", max_in_flight=6), "orders", "first")
    except ClientError as raised:
        if raised.name == "LOCAL_UNSUPPORTED":
            raise
        error = raised.info

    produced = run.wire.requests("Produce")
    ids = {each.batch.producer_id for each in sent_batches(produced)}
    run.expect(error or ids == {-1}, "an error, or batches without a producer id", seen=ids, exchanges=produced)
    run.expect(not error or not produced, "no Produce request with the error", seen=error, exchanges=produced)
