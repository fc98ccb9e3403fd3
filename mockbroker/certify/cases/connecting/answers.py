"""Answers that are slow, in parts, large, wrong, or newer than the client."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import send_error, sent_batches

_ONE = ClusterPlan(topics={"orders": 1})
_NETWORK = Source("Kafka protocol guide", "Network")
_TAGS = Source("KIP-482", "Tagged Fields")
_NEEDS = ("producer",)


@case(
    "connecting.answers.in-parts",
    title="Answers arrive in parts of seven bytes",
    level=Level.MUST,
    rule="An answer has as many bytes as its length says, however they are split into segments.",
    source=_NETWORK,
    needs=_NEEDS,
    cluster=_ONE,
    quick=True,
)
def in_parts(run: CaseRun) -> None:
    """Answers to Metadata and Produce are sent in parts of seven bytes, one each millisecond."""
    run.cluster.faults.add("Metadata", drip_bytes=7, drip_ms=1)
    run.cluster.faults.add("Produce", drip_bytes=7, drip_ms=1)

    error = send_error(run.producer(), "orders", "first")

    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.wire.requests())


@case(
    "connecting.answers.length-in-parts",
    title="The length of an answer arrives byte by byte",
    level=Level.MUST,
    rule="The four bytes of the length may arrive one by one, too.",
    source=_NETWORK,
    needs=_NEEDS,
    cluster=_ONE,
)
def length_in_parts(run: CaseRun) -> None:
    """The answer to Produce is sent byte by byte, one each millisecond."""
    run.cluster.faults.add("Produce", drip_bytes=1, drip_ms=1)

    error = send_error(run.producer(), "orders", "first")

    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.wire.requests())


@case(
    "connecting.answers.slow",
    title="An answer after a second",
    level=Level.MUST,
    rule="A client waits for an answer as long as its request timeout, and sends the request once.",
    source=Source("Kafka documentation", "request.timeout.ms"),
    needs=_NEEDS,
    cluster=_ONE,
)
def slow(run: CaseRun) -> None:
    """The first Produce request is answered after a second."""
    run.cluster.faults.add("Produce", times=1, after=True, delay_ms=1000)

    error = send_error(run.producer(), "orders", "first")

    produced = run.wire.requests("Produce")
    run.expect(error is None, "the record is delivered", seen=error, exchanges=produced)
    run.expect(len(produced) == 1, "one Produce request", seen=f"{len(produced)}", exchanges=produced)


@case(
    "connecting.answers.large",
    title="A Metadata answer for 5,000 partitions",
    level=Level.MUST,
    rule="An answer may have as many bytes as a signed 32-bit length can say; metadata of large topics have many.",
    source=_NETWORK,
    needs=_NEEDS,
    cluster=ClusterPlan(topics={"orders": 5000}),
)
def large(run: CaseRun) -> None:
    """The topic has 5,000 partitions; a record is sent to the last one."""
    [delivery] = run.producer().send("orders", "first", partition=4999)

    run.expect(delivery.error is None, "the record is delivered", seen=delivery.error)
    run.expect(len(sent_batches(run.wire.requests("Produce"), 4999)) == 1, "one batch for partition 4999")


@case(
    "connecting.answers.wrong-correlation-id",
    title="An answer with another correlation id",
    level=Level.MUST,
    rule="An answer whose correlation id is of no request is not taken for the answer of one.",
    source=Source("Kafka protocol guide", "Common Request and Response Structure"),
    needs=_NEEDS,
    settings_needed=("request_timeout_ms",),
    cluster=_ONE,
)
def wrong_correlation_id(run: CaseRun) -> None:
    """The answer to the first Produce request has another correlation id, and an error that is not retriable."""
    code = {"responses.partition_responses.error_code": 29}
    run.cluster.faults.add("Produce", times=1, wrong_correlation_id=True, set_fields=code)

    error = send_error(run.producer(request_timeout_ms=1000), "orders", "first", timeout_ms=3000)

    produced = run.wire.requests("Produce")
    is_taken = error is not None and error.name == "TOPIC_AUTHORIZATION_FAILED"
    run.expect(not is_taken, "the answer is not used", seen=error, exchanges=produced)


@case(
    "connecting.answers.cut",
    title="The connection ends in the middle of an answer",
    level=Level.MUST,
    rule="A part of an answer is no answer: the request counts as failed by the connection, and is retried.",
    source=_NETWORK,
    needs=_NEEDS,
    cluster=_ONE,
)
def cut(run: CaseRun) -> None:
    """Of the answer to the first Produce request only 10 bytes are sent, then the connection is closed."""
    run.cluster.faults.add("Produce", times=1, truncate=10)

    error = send_error(run.producer(), "orders", "first")

    produced = run.wire.requests("Produce")
    run.expect(error is None, "the record is delivered by a retry", seen=error, exchanges=produced)


@case(
    "connecting.answers.reset",
    title="The connection is reset",
    level=Level.MUST,
    rule="A connection that is reset counts as failed: the client connects again, and retries.",
    source=Source("Kafka documentation", "retries", "kafka-clients NetworkException"),
    needs=_NEEDS,
    cluster=_ONE,
)
def reset(run: CaseRun) -> None:
    """The first Produce request is answered by a TCP reset."""
    run.cluster.faults.add("Produce", times=1, drop="reset")

    error = send_error(run.producer(), "orders", "first")

    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.wire.requests("Produce"))


@case(
    "connecting.answers.restarted",
    title="A node restarts while a client is idle",
    level=Level.MUST,
    rule="A connection that the broker has closed is opened again when it is needed; no error is shown.",
    source=Source("Kafka documentation", "connections.max.idle.ms, reconnect.backoff.ms"),
    needs=_NEEDS,
    cluster=_ONE,
)
def restarted(run: CaseRun) -> None:
    """After the first record the node is stopped and started; its first two new connections are closed at once."""
    producer = run.producer()
    first = send_error(producer, "orders", "first")
    run.cluster.faults.add(None, on="connection", times=2, drop="close")
    run.cluster.stop_node(0)
    run.cluster.start_node(0)

    error = send_error(producer, "orders", "second", timeout_ms=12_000)

    run.expect([first, error] == [None, None], "both records are delivered", seen=[first, error])


@case(
    "connecting.answers.unknown-tags",
    title="Tagged fields that the client does not know",
    level=Level.MUST,
    rule="A client skips tagged fields that it does not know, wherever they are.",
    source=_TAGS,
    needs=_NEEDS,
    cluster=_ONE,
    quick=True,
)
def unknown_tags(run: CaseRun) -> None:
    """Each structure of ApiVersions, Metadata, InitProducerId and Produce answers has an unknown tagged field."""
    for api in ("ApiVersions", "Metadata", "InitProducerId", "Produce"):
        run.cluster.faults.add(api, unknown_tags=True, optional=True)

    error = send_error(run.producer(), "orders", "first")

    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.wire.requests())


@case(
    "connecting.answers.unknown-tags-fetched",
    title="Tagged fields that the client does not know, in a group",
    level=Level.MUST,
    rule="A client skips tagged fields that it does not know, wherever they are.",
    source=_TAGS,
    needs=("consumer.classic",),
    cluster=_ONE,
)
def unknown_tags_fetched(run: CaseRun) -> None:
    """Each structure of the answers to a consumer in a group has an unknown tagged field."""
    for api in ("Metadata", "FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "ListOffsets", "Fetch"):
        run.cluster.faults.add(api, unknown_tags=True, optional=True)
    run.produce("orders", "first")
    consumer = run.consumer(group_id="shop", auto_offset_reset="earliest")
    consumer.subscribe("orders")

    polled = consumer.poll_until(records=1)

    run.expect(polled.values == ["first"], "the record", seen=polled.values)


@case(
    "connecting.answers.newer-error",
    title="An error code that the client does not know",
    level=Level.MUST,
    rule="An unknown error code is an unknown server error: the record fails, and the client goes on.",
    source=Source("Kafka protocol guide", "Error Codes", "kafka-clients Errors.forCode, UnknownServerException"),
    needs=_NEEDS,
    cluster=_ONE,
    quick=True,
)
def newer_error(run: CaseRun) -> None:
    """The first Produce request is answered with error code 9999."""
    run.cluster.faults.add("Produce", times=1, set_fields={"responses.partition_responses.error_code": 9999})
    producer = run.producer()

    refused = send_error(producer, "orders", "first")
    error = send_error(producer, "orders", "second")

    produced = run.wire.requests("Produce")
    run.expect(refused, "the first record fails", seen="it is delivered", exchanges=produced)
    run.expect(error is None, "the second record is delivered", seen=error, exchanges=produced)


@case(
    "connecting.answers.throttled",
    title="The broker asks for a pause",
    level=Level.SHOULD,
    rule="A client sends nothing on a connection for the throttle time of an answer (Produce 6 and later).",
    source=Source("KIP-219", "Proposed Changes"),
    needs=_NEEDS,
    cluster=_ONE,
)
def throttled(run: CaseRun) -> None:
    """The answer to the first Produce request has a throttle time of 700 ms; the broker itself reads on."""
    run.cluster.faults.add("Produce", times=1, set_fields={"throttle_time_ms": 700})
    producer = run.producer()

    errors = [send_error(producer, "orders", value) for value in ("first", "second")]

    before, after = run.wire.requests("Produce")
    pause_ms = (after.arrived_ns - before.departed_ns) / 1e6
    run.expect(errors == [None, None], "both records are delivered", seen=errors)
    run.expect(pause_ms >= 650, "700 ms without a request", seen=f"{pause_ms:.0f} ms", exchanges=[before, after])
