"""Offsets out of range, by the reset policy."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun


@case(
    "fetching.offset-reset.out-of-range-earliest",
    title="A position beyond the end of the log with auto.offset.reset=earliest",
    level=Level.MUST,
    rule="A consumer whose position does not exist on the server goes on from the earliest offset with that policy.",
    source=Source("Kafka documentation", "auto.offset.reset", "kafka-clients ConsumerConfig.AUTO_OFFSET_RESET_DOC"),
    needs=("consumer.assign",),
    settings_needed=("auto_offset_reset",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    quick=True,
)
def out_of_range_earliest(run: CaseRun) -> None:
    """No fault: the consumer starts at offset 100 of a log with two records."""
    run.produce("orders", "first", "second")
    consumer = run.consumer(auto_offset_reset="earliest")
    consumer.assign(("orders", 0, 100))

    polled = consumer.poll_until(records=2)

    run.expect(polled.values == ["first", "second"], "all records, from the earliest offset", seen=polled.values)
    refused = run.wire.requests("Fetch").answered(error="OFFSET_OUT_OF_RANGE")
    run.expect(refused, "a Fetch at offset 100 is refused with OFFSET_OUT_OF_RANGE first", seen="none")


@case(
    "fetching.offset-reset.out-of-range-latest",
    title="A position beyond the end of the log with auto.offset.reset=latest",
    level=Level.MUST,
    rule="A consumer whose position does not exist on the server goes on from the end of the log with that policy.",
    source=Source("Kafka documentation", "auto.offset.reset", "kafka-clients ConsumerConfig.AUTO_OFFSET_RESET_DOC"),
    needs=("consumer.assign",),
    settings_needed=("auto_offset_reset",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
)
def out_of_range_latest(run: CaseRun) -> None:
    """No fault: the consumer starts at offset 100 of a log with two records; then a third is appended."""
    run.produce("orders", "first", "second")
    consumer = run.consumer(auto_offset_reset="latest")
    consumer.assign(("orders", 0, 100))
    while not run.wire.requests("Fetch", where={"topics.partitions.fetch_offset": 2}):
        consumer.poll(timeout_ms=100)
    run.produce("orders", "third")

    polled = consumer.poll_until(records=1)

    run.expect(polled.values == ["third"], "only the record after the reset", seen=polled.values)


@case(
    "fetching.offset-reset.none",
    title="A position beyond the end of the log with auto.offset.reset=none",
    level=Level.MUST,
    rule="Without a policy the application gets an error, and the client does not choose a position itself.",
    source=Source("Kafka documentation", "auto.offset.reset", "kafka-clients OffsetOutOfRangeException"),
    needs=("consumer.assign",),
    settings_needed=("auto_offset_reset",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
)
def out_of_range_none(run: CaseRun) -> None:
    """No fault: the consumer starts at offset 100 of a log with two records."""
    run.produce("orders", "first", "second")
    consumer = run.consumer(auto_offset_reset="none")
    consumer.assign(("orders", 0, 100))

    run.expect_poll_error(consumer, "OFFSET_OUT_OF_RANGE", "LOCAL_NO_OFFSET")
