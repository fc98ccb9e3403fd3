"""Idempotent producers: sequences, and retries of batches that were appended."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun


@case(
    "producing.idempotence.answer-lost",
    title="The connection ends after a batch was appended",
    level=Level.MUST,
    rule="An idempotent producer sends the batch again with the same producer id, epoch and sequence.",
    source=Source("KIP-98", "Idempotent Producer Guarantees"),
    needs=("producer.idempotence",),
    cluster=ClusterPlan(topics={"orders": 1}),
    quick=True,
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
