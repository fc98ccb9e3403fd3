"""Time limits and backoff of producers."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import acknowledged, asks_for, error_name, send_error

_ONE = ClusterPlan(topics={"orders": 1})
#: The shortest time before a retry that is accepted, milliseconds, with retry.backoff.ms 400.
_BACKOFF_MS = 310
#: What a client reports for a record that it could not deliver in time.
_LATE = ("LOCAL_TIMEOUT", "REQUEST_TIMED_OUT", "LOCAL_TRANSPORT", "NETWORK_EXCEPTION")


def _send_ms(run: CaseRun) -> float:
    """How long the last call took, milliseconds."""
    return (run.calls[-1].answered_ns - run.calls[-1].at_ns) / 1e6


@case(
    "producing.timeouts.delivery",
    title="A record that is never acknowledged",
    level=Level.SHOULD,
    rule="A record that is not acknowledged within the delivery timeout fails with an error.",
    source=Source("KIP-91", "Proposed Changes", "kafka-clients ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG"),
    needs=("producer",),
    settings_needed=("delivery_timeout_ms", "request_timeout_ms"),
    cluster=_ONE,
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def delivery(run: CaseRun) -> None:
    """Produce requests are never answered."""
    run.cluster.faults.add("Produce", answer="never")

    producer = run.acked_producer(delivery_timeout_ms=1500, request_timeout_ms=1000, linger_ms=0)
    error = send_error(producer, "orders", "first", timeout_ms=8000)

    produced = run.wire.requests("Produce")
    run.expect(error_name(error) in _LATE, "an error of time or transport", seen=error, exchanges=produced)
    spent = _send_ms(run)
    run.expect(spent < 6000, "within the delivery timeout of 1.5 s", seen=f"after {spent:.0f} ms", exchanges=produced)


@case(
    "producing.timeouts.request",
    title="A Produce request that is never answered",
    level=Level.SHOULD,
    rule="A request without an answer within the request timeout counts as failed; its batch should be sent again.",
    source=Source(
        "Kafka documentation", "request.timeout.ms", "kafka-clients ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG"
    ),
    needs=("producer",),
    settings_needed=("request_timeout_ms",),
    cluster=_ONE,
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def request(run: CaseRun) -> None:
    """The first Produce request is never answered, nor any later one of its connection."""
    run.cluster.faults.add("Produce", times=1, answer="never")

    error = send_error(run.acked_producer(request_timeout_ms=1000), "orders", "first", timeout_ms=10_000)

    produced = run.wire.requests("Produce")
    spent = _send_ms(run)
    if error_name(error) in _LATE and spent < 8000:
        run.should(False, "the record is delivered by a retry", seen=error, exchanges=produced)
        return
    run.expect(error is None, "the record is delivered by a retry", seen=error, exchanges=produced)
    connections = [each.connection_id for each in produced]
    run.expect(len(set(connections)) > 1, "the retry has a new connection", seen=connections, exchanges=produced)


@case(
    "producing.timeouts.unknown-topic",
    title="A topic that does not exist",
    level=Level.MUST,
    rule="Without metadata of the topic a send fails when its time is over, and does not block for ever.",
    source=Source("Kafka documentation", "max.block.ms", "kafka-clients KafkaProducer.send, TimeoutException"),
    needs=("producer",),
    settings_needed=("max_block_ms",),
    cluster=ClusterPlan(properties={"auto.create.topics.enable": False}),
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def unknown_topic(run: CaseRun) -> None:
    """Metadata answers UNKNOWN_TOPIC_OR_PARTITION for the topic."""
    error = send_error(run.acked_producer(max_block_ms=1000), "missing", "first", timeout_ms=8000)

    asked = run.wire.requests("Metadata")
    names = ("LOCAL_TIMEOUT", "UNKNOWN_TOPIC_OR_PARTITION")
    run.expect(error_name(error) in names, " or ".join(names), seen=error, exchanges=asked)
    spent = _send_ms(run)
    run.expect(spent < 5000, "within max_block_ms of 1 s", seen=f"after {spent:.0f} ms", exchanges=asked)


@case(
    "producing.timeouts.topic-appears",
    title="A topic that is created after the first question for it",
    level=Level.MUST,
    rule="A topic that metadata do not have (UNKNOWN_TOPIC_OR_PARTITION, or missing among all topics) may come: the "
    "error is retriable, so the client asks again, and delivers the record.",
    source=Source("Kafka protocol guide", "Error Codes", "kafka-clients UnknownTopicOrPartitionException"),
    needs=("producer",),
    cluster=ClusterPlan(properties={"auto.create.topics.enable": False}),
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def topic_appears(run: CaseRun) -> None:
    """The topic is created after the first Metadata request that asks for it, or for all topics."""
    producer = run.acked_producer()
    sending = run.in_background(lambda: producer.send("orders", "first"))
    run.wire.wait_for_request("Metadata", where=asks_for("orders"), answered=True)
    run.cluster.create_topic("orders")

    [delivered] = sending.result()

    asked = run.wire.requests("Metadata")
    run.expect(delivered.error is None, "the record is delivered", seen=delivered.error, exchanges=asked)


@case(
    "producing.timeouts.backoff",
    title="The time before a retry",
    level=Level.SHOULD,
    rule="Before a retry the client waits for retry.backoff.ms, less 20 percent of jitter at most.",
    source=Source("KIP-580", "Proposed Changes", "kafka-clients ProducerConfig.RETRY_BACKOFF_MS_CONFIG"),
    needs=("producer",),
    settings_needed=("retry_backoff_ms",),
    cluster=_ONE,
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def backoff(run: CaseRun) -> None:
    """The first Produce request is answered with NOT_ENOUGH_REPLICAS."""
    run.cluster.faults.add("Produce", times=1, error="NOT_ENOUGH_REPLICAS")

    error = send_error(run.acked_producer(retry_backoff_ms=400), "orders", "first")

    produced = run.wire.requests("Produce")
    gaps = [
        round((after.arrived_ns - before.departed_ns) / 1e6)
        for before, after in zip(produced, list(produced)[1:], strict=False)
    ]
    run.expect(error is None, "the record is delivered", seen=error, exchanges=produced)
    run.expect(gaps, "a retry", seen="one Produce request", exchanges=produced)
    # 400 ms less 20 percent; times are measured at the broker, and timers of clients may be some milliseconds early.
    run.expect(
        min(gaps) >= _BACKOFF_MS,
        f"at least {_BACKOFF_MS} ms before a retry: 320 ms, less 10 ms for the measurement",
        seen=f"{min(gaps)} ms",
        exchanges=produced,
    )


@case(
    "producing.timeouts.request-field",
    title="The time limit in the request",
    level=Level.SHOULD,
    rule="TimeoutMs of Produce limits the wait for replicas: it is more than 0, and not longer than the default limit.",
    source=Source("Kafka protocol guide", "Produce API"),
    needs=("producer",),
    settings_needed=("request_timeout_ms",),
    cluster=_ONE,
    on_kafka=True,
    decided_by=("Produce", "Metadata"),
)
@acknowledged
def request_field(run: CaseRun) -> None:
    """The broker appends a record. request_timeout_ms is 4,000."""
    error = send_error(run.acked_producer(request_timeout_ms=4000), "orders", "first")

    produced = run.wire.requests("Produce")[0]
    given = produced.request.timeout_ms
    run.expect(error is None, "the record is delivered", seen=error, exchanges=produced)
    run.expect(0 < given <= 30_000, "TimeoutMs from 1 to 30,000", seen=given, exchanges=produced)
