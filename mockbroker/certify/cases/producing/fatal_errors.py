"""Errors of Produce that a retry cannot mend: they are reported at once, and the producer goes on."""

from __future__ import annotations

from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import acknowledged, error_name, send_error

_ONE = ClusterPlan(topics={"orders": 1})


def refused_for_good(code: str, name: str, *, quick: bool = False) -> Case:
    """A case in which the first Produce request is refused with an error that is not retriable."""

    @acknowledged
    def play(run: CaseRun) -> None:
        run.cluster.faults.add("Produce", times=1, error=code)

        error = send_error(run.acked_producer(), "orders", "first")

        produced = run.wire.requests("Produce")
        run.expect(error, "the record fails", seen="it is delivered", exchanges=produced)
        run.expect(len(produced) == 1, "the batch is sent once", seen=f"{len(produced)} times", exchanges=produced)
        run.should(error_name(error) == code, f"the error is {code}", seen=error, exchanges=produced)

    play.__doc__ = f"The first Produce request is answered with {code}; a later one would be appended."
    return case(
        f"producing.errors.{name}",
        title=f"Produce is refused with {code}",
        level=Level.MUST,
        rule=f"{code} is not retriable: the producer reports it to the application, and does not send the batch again.",
        source=Source("Kafka protocol guide", "Error Codes", "kafka-clients Callback.onCompletion, non-retriable"),
        needs=("producer",),
        cluster=_ONE,
        quick=quick,
        decided_by=("Produce",),
    )(play)


topic_authorization = refused_for_good("TOPIC_AUTHORIZATION_FAILED", "topic-authorization", quick=True)
invalid_record = refused_for_good("INVALID_RECORD", "invalid-record")
invalid_topic = refused_for_good("INVALID_TOPIC_EXCEPTION", "invalid-topic")
record_list_too_large = refused_for_good("RECORD_LIST_TOO_LARGE", "record-list-too-large")
message_too_large = refused_for_good("MESSAGE_TOO_LARGE", "message-too-large")
invalid_required_acks = refused_for_good("INVALID_REQUIRED_ACKS", "invalid-required-acks")
invalid_timestamp = refused_for_good("INVALID_TIMESTAMP", "invalid-timestamp")
policy_violation = refused_for_good("POLICY_VIOLATION", "policy-violation")
unsupported_format = refused_for_good("UNSUPPORTED_FOR_MESSAGE_FORMAT", "unsupported-format")
unknown_server_error = refused_for_good("UNKNOWN_SERVER_ERROR", "unknown-server-error")


@case(
    "producing.errors.metadata-authorization",
    title="Metadata is refused for the topic with TOPIC_AUTHORIZATION_FAILED",
    level=Level.MUST,
    rule="The authorization error of a topic in Metadata is not retriable: it is reported for records of this topic.",
    source=Source(
        "Kafka protocol guide", "Metadata API", "kafka-clients TopicAuthorizationException, KafkaProducer.send"
    ),
    needs=("producer",),
    cluster=_ONE,
    decided_by=("Metadata",),
)
@acknowledged
def metadata_authorization(run: CaseRun) -> None:
    """Each Metadata request that names the topic is answered with TOPIC_AUTHORIZATION_FAILED for it."""
    run.cluster.faults.add("Metadata", topic="orders", error="TOPIC_AUTHORIZATION_FAILED")

    error = send_error(run.acked_producer(), "orders", "first")

    asked = run.wire.requests("Metadata")
    if asked and all(each.request.topics is None for each in asked):
        # A list of all topics has those that the client may describe, and no errors. Source: Kafka's KafkaApis.
        run.not_exercised("the client asks for all topics: a broker answers with no error for one of them")
    run.expect(
        error and error.name != "LOCAL_TIMEOUT", "the error of the topic, not a time-out", seen=error, exchanges=asked
    )
    run.should(error_name(error) == "TOPIC_AUTHORIZATION_FAILED", "its name", seen=error, exchanges=asked)
    run.wire.assert_never("Produce")


@case(
    "producing.errors.goes-on",
    title="A record after one that was refused",
    level=Level.MUST,
    rule="INVALID_RECORD concerns one batch: the producer stays usable, and delivers the next record.",
    source=Source("KIP-360", "Proposed Changes", "kafka-clients Callback.onCompletion, InvalidRecordException"),
    needs=("producer",),
    cluster=_ONE,
    decided_by=("Produce",),
)
@acknowledged
def goes_on(run: CaseRun) -> None:
    """The first Produce request is answered with INVALID_RECORD, later ones are appended."""
    run.cluster.faults.add("Produce", times=1, error="INVALID_RECORD")
    producer = run.acked_producer()

    refused = send_error(producer, "orders", "first")
    error = send_error(producer, "orders", "second")

    produced = run.wire.requests("Produce")
    values = [record.value for record in run.cluster.read("orders")]
    run.expect(refused, "the first record fails", seen="it is delivered", exchanges=produced)
    run.expect(error is None, "the second record is delivered", seen=error, exchanges=produced)
    run.expect(values == [b"second"], "the second record stands in the log", seen=values, exchanges=produced)


@case(
    "producing.errors.invalid-topic-name",
    title="A topic name that Kafka does not allow",
    level=Level.MUST,
    rule="INVALID_TOPIC_EXCEPTION in Metadata is not retriable: it is reported instead of a time-out.",
    source=Source("Kafka protocol guide", "Error Codes", "kafka-clients InvalidTopicException, KafkaProducer.send"),
    needs=("producer",),
    on_kafka=True,
    decided_by=("Metadata",),
)
@acknowledged
def invalid_topic_name(run: CaseRun) -> None:
    """Metadata answers INVALID_TOPIC_EXCEPTION for the topic, because its name has a space."""
    error = send_error(run.acked_producer(), "not a topic", "first")

    asked = run.wire.requests("Metadata")
    names = ("INVALID_TOPIC_EXCEPTION", "LOCAL_ILLEGAL_STATE")
    if error_name(error) not in names and not asked.answered(error="INVALID_TOPIC_EXCEPTION"):
        run.not_exercised(
            f"the client has asked for the topic in no Metadata request, so that no answer had the error; it reports "
            f"{error or 'no error'}"
        )
    is_reported = error_name(error) not in (None, "LOCAL_TIMEOUT")
    run.expect(is_reported, "an error that is no time-out", seen=error, exchanges=asked)
    run.should(error_name(error) in names, "INVALID_TOPIC_EXCEPTION", seen=error, exchanges=asked)
