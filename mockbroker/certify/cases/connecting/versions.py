"""Versions of APIs: negotiation by ApiVersions."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun


@case(
    "connecting.versions.older-produce",
    title="A broker that has only older versions of Produce",
    level=Level.MUST,
    rule="A client sends an API in the highest version that both the client and the broker have.",
    source=Source("KIP-35", "Proposed Changes", "Kafka protocol guide, Retrieving Supported API versions"),
    needs=("producer",),
    cluster=ClusterPlan(topics={"orders": 1}, versions={"Produce": 8}),
    quick=True,
)
def older_produce(run: CaseRun) -> None:
    """ApiVersions lists Produce up to version 8 only. A record that the application sends must arrive in version 8."""
    [delivery] = run.producer().send("orders", "first")

    produced = run.wire.requests("Produce")
    run.expect(delivery.error is None, "the record is delivered", seen=delivery.error)
    versions = sorted({exchange.api_version for exchange in produced})
    run.expect(versions == [8], "Produce in version 8", seen=f"versions {versions}", exchanges=produced)
