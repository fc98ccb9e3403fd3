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
