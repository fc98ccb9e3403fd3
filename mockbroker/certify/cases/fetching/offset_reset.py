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
    decided_by=("Fetch", "ListOffsets"),
)
def out_of_range_earliest(run: CaseRun) -> None:
    """No fault: the consumer starts at offset 100 of a log with two records."""
    run.produce("orders", "first", "second")
    consumer = run.consumer(auto_offset_reset="earliest")
    consumer.assign(("orders", 0, 100))

    polled = consumer.poll_until(records=2)

    run.expect(polled.values == ["first", "second"], "all records, from the earliest offset", seen=polled.values)
    if not run.wire.requests("Fetch").answered(error="OFFSET_OUT_OF_RANGE"):
        run.note("the client finds out that offset 100 does not exist without a Fetch request that is refused")


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
    decided_by=("Fetch", "ListOffsets"),
)
def out_of_range_latest(run: CaseRun) -> None:
    """No fault: the consumer starts at offset 100 of a log with two records; then a third is appended."""
    run.produce("orders", "first", "second")
    consumer = run.consumer(auto_offset_reset="latest")
    consumer.assign(("orders", 0, 100))
    polled = run.poll_for(
        consumer,
        lambda: run.wire.requests("Fetch", where={"topics.partitions.fetch_offset": 2}),
        "a Fetch request at offset 2, the end of the log",
    )
    run.produce("orders", "third")

    polled.records.extend(consumer.poll_until(records=1).records)

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
    decided_by=("Fetch", "ListOffsets"),
)
def out_of_range_none(run: CaseRun) -> None:
    """No fault: the consumer starts at offset 100 of a log with two records."""
    run.produce("orders", "first", "second")
    consumer = run.consumer(auto_offset_reset="none")
    consumer.assign(("orders", 0, 100))

    run.expect_poll_error(consumer, "OFFSET_OUT_OF_RANGE", "LOCAL_NO_OFFSET", timeout_s=10)
