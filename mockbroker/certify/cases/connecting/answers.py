"""Answers that are slow, in parts, large, wrong, or newer than the client."""

from __future__ import annotations

from typing import Any

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.connecting.tagged_fields import require_flexible
from mockbroker.certify.cases.producer_calls import acknowledged, not_idempotent, send_error, sent_batches
from mockbroker.journal import Exchange

_ONE = ClusterPlan(topics={"orders": 1})
_NETWORK = Source("Kafka protocol guide", "Network")
_TAGS = Source("KIP-482", "Tagged Fields")
_NEEDS = ("producer",)
#: The first version of Produce in which the client makes the pause (KIP-219).
_THROTTLED_BY_CLIENTS = 6
_THROTTLE_MS = 700
_TOLERANCE_MS = 50
_USUAL_PAUSE_MAX_MS = 3_000


@case(
    "connecting.answers.in-parts",
    title="Answers arrive in parts of seven bytes",
    level=Level.MUST,
    rule="An answer has as many bytes as its length says, however they are split into segments.",
    source=_NETWORK,
    needs=_NEEDS,
    cluster=_ONE,
    quick=True,
    decided_by=("Produce",),
)
@acknowledged
def in_parts(run: CaseRun) -> None:
    """Answers to Metadata and Produce are sent in parts of seven bytes, one each millisecond."""
    run.cluster.faults.add("Metadata", drip_bytes=7, drip_ms=1)
    run.cluster.faults.add("Produce", drip_bytes=7, drip_ms=1)

    error = send_error(run.acked_producer(), "orders", "first")

    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.last_exchanges())


@case(
    "connecting.answers.length-in-parts",
    title="The length of an answer arrives byte by byte",
    level=Level.MUST,
    rule="The four bytes of the length may arrive one by one, too.",
    source=_NETWORK,
    needs=_NEEDS,
    cluster=_ONE,
    decided_by=("Produce",),
)
@acknowledged
def length_in_parts(run: CaseRun) -> None:
    """The answer to Produce is sent byte by byte, one each millisecond."""
    run.cluster.faults.add("Produce", drip_bytes=1, drip_ms=1)

    error = send_error(run.acked_producer(), "orders", "first")

    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.last_exchanges())


@case(
    "connecting.answers.slow",
    title="An answer after a second",
    level=Level.MUST,
    rule="A client waits for an answer as long as its request timeout, and sends the request once.",
    source=Source("Kafka documentation", "request.timeout.ms"),
    needs=_NEEDS,
    cluster=_ONE,
    decided_by=("Produce",),
)
@acknowledged
def slow(run: CaseRun) -> None:
    """The first Produce request is answered after a second."""
    run.cluster.faults.add("Produce", times=1, after=True, delay_ms=1000)

    error = send_error(run.acked_producer(), "orders", "first")

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
    decided_by=("Produce",),
)
def large(run: CaseRun) -> None:
    """The topic has 5,000 partitions; a record is sent to the last one."""
    [delivery] = run.acked_producer().send("orders", "first", partition=4999)

    run.expect(delivery.error is None, "the record is delivered", seen=delivery.error)
    run.expect(len(sent_batches(run.wire.requests("Produce"), 4999)) == 1, "one batch for partition 4999", seen="none")


@case(
    "connecting.answers.wrong-correlation-id",
    title="An answer with another correlation id",
    level=Level.MUST,
    rule="An answer whose correlation id is of no request is not taken for the answer of one.",
    source=Source("Kafka protocol guide", "Common Request and Response Structure"),
    needs=_NEEDS,
    settings_needed=("request_timeout_ms",),
    cluster=_ONE,
    decided_by=("Produce",),
)
@acknowledged
def wrong_correlation_id(run: CaseRun) -> None:
    """The answer to the first Produce request has another correlation id, and an error that is not retriable."""
    code = {"responses.partition_responses.error_code": 29}
    run.cluster.faults.add("Produce", times=1, wrong_correlation_id=True, set_fields=code)

    error = send_error(run.acked_producer(request_timeout_ms=1000), "orders", "first", timeout_ms=3000)

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
    decided_by=("Produce",),
)
@acknowledged
def cut(run: CaseRun) -> None:
    """Of the answer to the first Produce request only 10 bytes are sent, then the connection is closed."""
    run.cluster.faults.add("Produce", times=1, truncate=10)

    error = send_error(run.acked_producer(), "orders", "first")

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
    decided_by=("Produce",),
)
@acknowledged
def reset(run: CaseRun) -> None:
    """The first Produce request is answered by a TCP reset."""
    run.cluster.faults.add("Produce", times=1, drop="reset")

    error = send_error(run.acked_producer(), "orders", "first")

    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.wire.requests("Produce"))


@case(
    "connecting.answers.restarted",
    title="A node restarts while a client is idle",
    level=Level.MUST,
    rule="A connection that the broker has closed is opened again when it is needed; no error is shown.",
    source=Source("Kafka documentation", "connections.max.idle.ms, reconnect.backoff.ms"),
    needs=_NEEDS,
    cluster=_ONE,
    decided_by=("Produce",),
)
def restarted(run: CaseRun) -> None:
    """After the first record the node is stopped and started; its first two new connections are closed at once."""
    producer = run.acked_producer()
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
    decided_by=("Produce",),
)
def unknown_tags(run: CaseRun) -> None:
    """Each structure of ApiVersions, Metadata, InitProducerId and Produce answers has an unknown tagged field."""
    apis = ("ApiVersions", "Metadata", "InitProducerId", "Produce")
    for api in apis:
        run.cluster.faults.add(api, unknown_tags=True, optional=True)

    error = send_error(run.acked_producer(), "orders", "first")
    require_flexible(run, apis)

    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.last_exchanges())


@case(
    "connecting.answers.unknown-tags-fetched",
    title="Tagged fields that the client does not know, in a group",
    level=Level.MUST,
    rule="A client skips tagged fields that it does not know, wherever they are.",
    source=_TAGS,
    needs=("consumer.classic",),
    cluster=_ONE,
    decided_by=("Fetch",),
)
def unknown_tags_fetched(run: CaseRun) -> None:
    """Each structure of the answers to a consumer in a group has an unknown tagged field."""
    apis = ("Metadata", "FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "ListOffsets", "Fetch")
    for api in apis:
        run.cluster.faults.add(api, unknown_tags=True, optional=True)
    run.produce("orders", "first")
    consumer = run.consumer(group_id="shop", auto_offset_reset="earliest")
    run.subscribe(consumer, "orders")

    polled = consumer.poll_until(records=1)
    require_flexible(run, apis)

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
    decided_by=("Produce",),
)
@acknowledged
def newer_error(run: CaseRun) -> None:
    """The first Produce request is answered with error code 9999. The producer is not idempotent, if it can be so."""
    run.cluster.faults.add("Produce", times=1, set_fields={"responses.partition_responses.error_code": 9999})
    producer = run.acked_producer(**not_idempotent(run))

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
    decided_by=("Produce",),
)
@acknowledged
def throttled(run: CaseRun) -> None:
    """The answer to one Produce request has a throttle time; the broker itself reads on.

    The time is 700 ms longer than the client's own pause between two records, which is measured before.
    """
    producer = run.acked_producer()
    errors = [send_error(producer, "orders", value) for value in ("first", "second")]
    usual = run.wire.requests("Produce").answered()
    run.expect(len(usual) > 1 and not any(errors), "two records are delivered without a fault", seen=errors)
    version = usual[0].api_version
    if version < _THROTTLED_BY_CLIENTS:
        run.not_exercised(f"the client sends Produce {version}: before version 6 the broker makes the pause")
    usual_ms = _pause_ms(usual[0], usual[1])
    if usual_ms > _USUAL_PAUSE_MAX_MS:
        run.not_exercised(f"the client itself pauses {usual_ms:.0f} ms between two records")
    throttle_ms = round(usual_ms) + _THROTTLE_MS
    run.cluster.faults.add("Produce", times=1, set_fields={"throttle_time_ms": throttle_ms})

    errors += [send_error(producer, "orders", value) for value in ("third", "fourth")]

    paused = run.wire.requests("Produce", after=usual[-1]).answered()
    run.expect(len(paused) > 1 and not any(errors), "all records are delivered", seen=errors)
    pause_ms = _pause_ms(paused[0], paused[1])
    run.expect(
        pause_ms >= throttle_ms - _TOLERANCE_MS,
        f"no request for {throttle_ms} ms, the throttle time",
        seen=f"a request after {pause_ms:.0f} ms; without a throttle time the client pauses {usual_ms:.0f} ms",
        exchanges=paused[:2],
    )


def _pause_ms(before: Exchange[Any, Any], after: Exchange[Any, Any]) -> float:
    """The time from an answer to a request."""
    return (after.arrived_ns - before.departed_ns) / 1e6
