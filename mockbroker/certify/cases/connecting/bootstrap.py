"""Bootstrap addresses, and the first connections."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun


@case(
    "connecting.bootstrap.dead-address",
    title="The first bootstrap address refuses connections",
    level=Level.MUST,
    rule="A client uses the bootstrap addresses as alternatives: one that is reachable is enough.",
    source=Source(
        "Kafka documentation", "bootstrap.servers", "kafka-clients CommonClientConfigs.BOOTSTRAP_SERVERS_DOC"
    ),
    needs=("producer",),
    cluster=ClusterPlan(nodes=2, topics={"orders": 1}),
    quick=True,
)
def dead_address(run: CaseRun) -> None:
    """Node 1 is stopped before the client starts, and its address is the first of the two bootstrap addresses."""
    alive, dead = run.cluster.bootstrap_servers.split(",")
    run.cluster.stop_node(1)
    producer = run.producer(bootstrap_servers=[dead, alive])

    [delivery] = producer.send("orders", "first")

    run.expect(delivery.error is None, "the record is delivered by the node that is reachable", seen=delivery.error)
