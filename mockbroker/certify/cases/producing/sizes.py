"""Records and batches that are too large, and those that are large."""

from __future__ import annotations

import random

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import (
    acknowledged,
    describe_order,
    error_name,
    send_error,
    stored_values,
)

_CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _incompressible(size: int, seed: int = 1) -> str:
    """A text of which no codec saves much; the same for the same seed."""
    return "".join(random.Random(seed).choices(_CHARACTERS, k=size))


_SMALL = ClusterPlan(topics={"orders": 1}, properties={"message.max.bytes": 2000})


@case(
    "producing.sizes.record-too-large",
    title="A record that is larger than the topic allows",
    level=Level.MUST,
    rule="MESSAGE_TOO_LARGE for a batch of one record cannot be mended: it is reported, and not sent again.",
    source=Source("Kafka protocol guide", "Error Codes", "kafka-clients RecordTooLargeException, Callback"),
    needs=("producer",),
    cluster=_SMALL,
    decided_by=("Produce",),
)
@acknowledged
def record_too_large(run: CaseRun) -> None:
    """The topic accepts batches of up to 2,000 bytes; the record has 5,000."""
    error = send_error(run.acked_producer(), "orders", _incompressible(5000))

    produced = run.wire.requests("Produce")
    run.expect(error_name(error) == "MESSAGE_TOO_LARGE", "MESSAGE_TOO_LARGE", seen=error, exchanges=produced)
    run.expect(len(produced) == 1, "the batch is sent once", seen=f"{len(produced)} times", exchanges=produced)


@case(
    "producing.sizes.batch-split",
    title="A batch of small records is larger than the topic allows",
    level=Level.SHOULD,
    rule="A batch of several records that is refused with MESSAGE_TOO_LARGE is split, and its parts are sent.",
    source=Source("KIP-126", "Proposed Changes"),
    needs=("producer",),
    settings_needed=("linger_ms",),
    cluster=_SMALL,
    decided_by=("Produce",),
)
@acknowledged
def batch_split(run: CaseRun) -> None:
    """The topic accepts batches of up to 2,000 bytes; six records of 600 bytes are in one batch."""
    values = [f"{number}" + _incompressible(600, number) for number in range(6)]

    error = send_error(run.acked_producer(linger_ms=100), "orders", *values)

    produced = run.wire.requests("Produce")
    stored = stored_values(run)
    run.expect(error is None, "all records are delivered", seen=error, exchanges=produced)
    run.expect(stored == values, "each record once, in order", seen=[value[:1] for value in stored], exchanges=produced)
    if not produced.answered(error="MESSAGE_TOO_LARGE"):
        run.not_exercised("the client has sent no batch that was too large")


@case(
    "producing.sizes.refused-by-client",
    title="A record that is larger than max_request_size",
    level=Level.MUST,
    rule="A record that is larger than the client's own limit is refused with an error, and not sent.",
    source=Source(
        "Kafka documentation", "max.request.size", "kafka-clients KafkaProducer.send, RecordTooLargeException"
    ),
    needs=("producer",),
    settings_needed=("max_request_size",),
    cluster=ClusterPlan(topics={"orders": 1}),
    decided_by=("Produce",),
)
@acknowledged
def refused_by_client(run: CaseRun) -> None:
    """Nothing fails at the broker. max_request_size is 2,000 bytes, the record has 5,000."""
    producer = run.acked_producer(max_request_size=2000)

    error = send_error(producer, "orders", _incompressible(5000))
    following = send_error(producer, "orders", "second")

    produced = run.wire.requests("Produce")
    run.expect(error, "the record fails", seen="it is delivered", exchanges=produced)
    run.expect(following is None, "the next record is delivered", seen=following, exchanges=produced)
    run.expect(len(produced) == 1, "one Produce request", seen=f"{len(produced)}", exchanges=produced)
    run.should(error_name(error) in ("MESSAGE_TOO_LARGE", "LOCAL_ILLEGAL_STATE"), "MESSAGE_TOO_LARGE", seen=error)


@case(
    "producing.sizes.large-record",
    title="A record of 900,000 bytes",
    level=Level.MUST,
    rule="A record below the limits of client and broker (1 MiB by default) is delivered as it is.",
    source=Source("Kafka documentation", "max.request.size, message.max.bytes"),
    needs=("producer",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("Produce",),
)
@acknowledged
def large_record(run: CaseRun) -> None:
    """The broker appends the record."""
    error = send_error(run.acked_producer(), "orders", "x" * 900_000)

    produced = run.wire.requests("Produce")
    run.expect(error is None, "the record is delivered", seen=error, exchanges=produced)


@case(
    "producing.sizes.many-records",
    title="2,000 records in one call",
    level=Level.MUST,
    rule="Records of one partition are stored in the order in which they were sent.",
    source=Source("Kafka documentation", "Guarantees", "kafka-clients KafkaProducer.send"),
    needs=("producer",),
    cluster=ClusterPlan(topics={"orders": 1}),
    decided_by=("Produce",),
)
@acknowledged
def many_records(run: CaseRun) -> None:
    """The broker appends all of them."""
    values = [f"{number:04}" for number in range(2000)]

    error = send_error(run.acked_producer(), "orders", *values)

    stored, produced = stored_values(run), run.wire.requests("Produce")
    run.expect(error is None, "all records are delivered", seen=error, exchanges=produced)
    run.expect(stored == values, "each record once, in order", seen=describe_order(stored, values), exchanges=produced)
