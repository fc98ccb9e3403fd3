"""Records that the broker refuses by what is in them, their errors (KIP-467), and the timestamps of answers."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import (
    acknowledged,
    error_name,
    require_version,
    send_error,
    sent_batches,
)
from mockbroker.certify.driver.messages import SendRecord

#: The first version of Produce with messages for batches and records (KIP-467).
_MESSAGES_SINCE = 8
_COMPACTED = ClusterPlan(topics={"orders": 1}, properties={"log.cleanup.policy": "compact"})


@case(
    "producing.records.without-key",
    title="A record without a key for a compacted topic",
    level=Level.MUST,
    rule="INVALID_RECORD is not retriable: the record fails, and the batch is not sent again.",
    source=Source("KIP-467", "Proposed Changes", "kafka-clients InvalidRecordException"),
    needs=("producer",),
    cluster=_COMPACTED,
    decided_by=("Produce",),
)
@acknowledged
def without_key(run: CaseRun) -> None:
    """The topic is compacted: the broker refuses the batch with INVALID_RECORD, and names the record."""
    error = send_error(run.acked_producer(), "orders", "first")

    produced = run.wire.requests("Produce")
    run.expect(error, "the record fails", seen="it is delivered", exchanges=produced)
    run.expect(len(produced) == 1, "the batch is sent once", seen=f"{len(produced)} times", exchanges=produced)
    run.should(error_name(error) == "INVALID_RECORD", "INVALID_RECORD", seen=error, exchanges=produced)


@case(
    "producing.records.message-of-broker",
    title="The broker says which record is invalid, and why",
    level=Level.SHOULD,
    rule="The client shows the message of the record's error (Produce 8) to the application.",
    source=Source("KIP-467", "Public Interfaces"),
    needs=("producer",),
    cluster=_COMPACTED,
    decided_by=("Produce",),
)
@acknowledged
def message_of_broker(run: CaseRun) -> None:
    """The broker refuses the batch with INVALID_RECORD, and a message for the record."""
    error = send_error(run.acked_producer(), "orders", "first")

    produced = run.wire.requests("Produce")[0]
    require_version(run, [produced], _MESSAGES_SINCE, "messages for records")
    [row] = produced.response.responses[0].partition_responses
    texts = [row.error_message, *(each.batch_index_error_message for each in row.record_errors)]
    shown = error is not None and any(text and text in error.message for text in texts)
    quoted = " or ".join(f'"{text}"' for text in texts if text)
    run.expect(shown, f"an error with the text {quoted}", seen=error, exchanges=produced)


@case(
    "producing.records.whole-batch",
    title="One invalid record in a batch",
    level=Level.MUST,
    rule="A batch with an invalid record is refused as a whole: none of its records counts as delivered.",
    source=Source("KIP-467", "Proposed Changes", "kafka-clients InvalidRecordException"),
    needs=("producer",),
    settings_needed=("linger_ms",),
    cluster=_COMPACTED,
    decided_by=("Produce",),
)
@acknowledged
def whole_batch(run: CaseRun) -> None:
    """Three records, of which the second has no key, are in one batch if the client batches them."""
    records = [SendRecord(value=str(number), key=None if number == 1 else "key") for number in range(3)]

    deliveries = run.acked_producer(linger_ms=100).send("orders", *records, timeout_ms=5000)

    produced = run.wire.requests("Produce")
    stored = {record.value for record in run.cluster.read("orders")}
    claimed = {f"{number}".encode() for number, each in enumerate(deliveries) if each.error is None}
    run.expect(claimed == stored, "exactly the stored records count as delivered", seen=claimed, exchanges=produced)
    run.expect(b"1" not in claimed, "the record without a key fails", seen=claimed, exchanges=produced)
    if not any(each.batch.count > 1 and b"1" in each.values for each in sent_batches(produced)):
        run.not_exercised("the client has sent the record without a key in a batch of its own")


@case(
    "producing.records.append-time",
    title="A topic with timestamps of the broker",
    level=Level.SHOULD,
    rule="With LogAppendTime the timestamp of a delivery is the one of the answer.",
    source=Source("KIP-32", "Proposed Changes", "kafka-clients RecordMetadata.timestamp"),
    needs=("producer",),
    cluster=ClusterPlan(topics={"orders": 1}, properties={"log.message.timestamp.type": "LogAppendTime"}),
    decided_by=("Produce",),
)
@acknowledged
def append_time(run: CaseRun) -> None:
    """The topic has LogAppendTime; the record has a timestamp of the year 2020."""
    [delivery] = run.acked_producer().send("orders", SendRecord(value="first", timestamp=1_577_836_800_000))

    produced = run.wire.requests("Produce")[-1]
    appended = produced.response.responses[0].partition_responses[0].log_append_time_ms
    run.expect(delivery.error is None, "the record is delivered", seen=delivery.error, exchanges=produced)
    if delivery.timestamp is None:
        run.not_exercised("the client shows no timestamp")
    run.expect(delivery.timestamp == appended, f"timestamp {appended}", seen=delivery.timestamp, exchanges=produced)


@case(
    "producing.records.old-timestamp",
    title="A record with a timestamp that the topic does not accept",
    level=Level.MUST,
    rule="INVALID_TIMESTAMP is not retriable: the record fails, and the batch is not sent again.",
    source=Source("Kafka protocol guide", "Error Codes", "kafka-clients InvalidTimestampException"),
    needs=("producer",),
    cluster=ClusterPlan(topics={"orders": 1}, properties={"log.message.timestamp.before.max.ms": 60_000}),
    decided_by=("Produce",),
)
@acknowledged
def old_timestamp(run: CaseRun) -> None:
    """Records may be one minute old; the record has a timestamp of the year 2020."""
    error = send_error(run.acked_producer(), "orders", SendRecord(value="first", timestamp=1_577_836_800_000))

    produced = run.wire.requests("Produce")
    run.expect(error, "the record fails", seen="it is delivered", exchanges=produced)
    run.expect(len(produced) == 1, "the batch is sent once", seen=f"{len(produced)} times", exchanges=produced)
    run.should(error_name(error) == "INVALID_TIMESTAMP", "INVALID_TIMESTAMP", seen=error, exchanges=produced)
