"""Metadata: how old they get, what changes in them, and their errors."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import send_error
from mockbroker.certify.driver.settings import ProducerSettings
from mockbroker.certify.partition_changes import CLIENT_ID, reassign

_MAX_AGE = Source(
    "Kafka documentation", "metadata.max.age.ms", "kafka-clients CommonClientConfigs.METADATA_MAX_AGE_DOC"
)
_ONE = ClusterPlan(topics={"orders": 1})


@case(
    "connecting.metadata.max-age",
    title="Metadata of a client that has nothing to do",
    level=Level.SHOULD,
    rule="Metadata are refreshed when they are older than metadata.max.age.ms, without any error.",
    source=_MAX_AGE,
    needs=("producer",),
    settings_needed=("metadata_max_age_ms",),
    cluster=_ONE,
    decided_by=("Metadata", "Produce"),
)
def max_age(run: CaseRun) -> None:
    """Nothing fails. metadata_max_age_ms is 300."""
    error = send_error(run.acked_producer(metadata_max_age_ms=300), "orders", "first")
    produced = run.wire.requests("Produce")[-1]

    refreshed = run.find_request("Metadata", after=produced, count=2)

    run.expect(error is None, "the record is delivered", seen=error)
    run.expect(refreshed, "two Metadata requests within 2 s", seen="fewer", exchanges=run.wire.requests("Metadata"))


@case(
    "connecting.metadata.new-partition",
    title="A topic gets another partition",
    level=Level.MUST,
    rule="After metadata.max.age.ms a client sees partitions that were added.",
    source=_MAX_AGE,
    needs=("producer", "admin.topics"),
    settings_needed=("metadata_max_age_ms",),
    cluster=_ONE,
    on_kafka=True,
    decided_by=("Metadata", "Produce"),
)
def new_partition(run: CaseRun) -> None:
    """After the first record the topic gets a second partition. metadata_max_age_ms is 300."""
    producer = run.acked_producer(metadata_max_age_ms=300)
    first = send_error(producer, "orders", "first")
    run.admin().create_partitions("orders", 2)
    seen = run.wire.requests("Metadata")[-1]
    run.find_request("Metadata", after=seen, count=2, answered=True)

    [delivery] = producer.send("orders", "second", partition=1)

    run.expect(first is None, "the first record is delivered", seen=first)
    run.expect(delivery.error is None, "the record for partition 1 is delivered", seen=delivery.error)


@case(
    "connecting.metadata.leader-not-available",
    title="Metadata has LEADER_NOT_AVAILABLE for a new topic",
    level=Level.MUST,
    rule="The error is retriable: the client asks again until the topic is there.",
    source=Source("Kafka protocol guide", "Error Codes", "kafka-clients LeaderNotAvailableException"),
    needs=("producer",),
    cluster=_ONE,
    decided_by=("Metadata", "Produce"),
)
def leader_not_available(run: CaseRun) -> None:
    """The first two Metadata requests that name the topic are answered with LEADER_NOT_AVAILABLE for it."""
    run.cluster.faults.add("Metadata", topic="orders", times=2, error="LEADER_NOT_AVAILABLE", optional=True)

    error = send_error(run.acked_producer(), "orders", "first")

    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.wire.requests("Metadata"))


@case(
    "connecting.metadata.node-added",
    title="A node that joins the cluster",
    level=Level.MUST,
    rule="A client connects to a node that it sees in metadata for the first time.",
    source=Source("Kafka protocol guide", "Partitioning and bootstrapping"),
    needs=("producer",),
    cluster=ClusterPlan(properties={"default.replication.factor": 2}),
    decided_by=("Metadata", "Produce"),
)
def node_added(run: CaseRun) -> None:
    """A second node joins, and the only partition of the topic is moved to it. metadata_max_age_ms is 300 if it can be.

    The second record is sent when the client has asked for metadata, or after two seconds.
    """
    run.cluster.create_topic("orders", replication_factor=1)
    age: ProducerSettings = {"metadata_max_age_ms": 300} if run.has_setting("metadata_max_age_ms") else {}
    producer = run.acked_producer(**age)
    first = send_error(producer, "orders", "first")
    added = run.cluster.add_node()
    reassign(run, "orders", 0, added)
    run.find_request("Metadata", after=run.wire.requests()[-1], answered=True)

    error = send_error(producer, "orders", "second")

    asked = [each for each in run.wire.requests("Metadata").answered() if each.client_id != CLIENT_ID]
    seen = [each for each in asked if any(broker.node_id == added for broker in each.response.brokers)]
    if not seen:
        run.not_exercised(f"the client asked for no metadata when node {added} had joined")
    run.expect(not (first or error), "both records are delivered", seen=[first, error])
    run.wire.assert_sent("Produce", node=added)


@case(
    "connecting.metadata.cluster",
    title="The id, controller and nodes of the cluster",
    level=Level.MUST,
    rule="The admin client shows the cluster's id and nodes as the broker gives them.",
    source=Source("KIP-117", "AdminClient.describeCluster", "kafka-clients Admin.describeCluster"),
    needs=("admin.cluster",),
    cluster=ClusterPlan(nodes=2),
    decided_by=("DescribeCluster", "Metadata"),
)
def cluster(run: CaseRun) -> None:
    """Nothing fails."""
    found = run.admin().describe_cluster()

    nodes = {f"{node.host}:{node.port}" for node in found.nodes}
    expected = set(run.cluster.bootstrap_servers.split(","))
    run.expect(
        found.cluster_id == run.cluster.cluster_id, f"the cluster id {run.cluster.cluster_id}", seen=found.cluster_id
    )
    run.expect(nodes == expected, f"the nodes {', '.join(sorted(expected))}", seen=nodes)


@case(
    "connecting.metadata.another-cluster",
    title="Another cluster at the bootstrap address",
    level=Level.MAY,
    rule="A client that sends ApiVersions 5 names the cluster and node that it expects, to detect another one.",
    source=Source("KIP-1242", "Proposed Changes"),
    needs=("producer",),
    cluster=_ONE,
    decided_by=("ApiVersions",),
)
def another_cluster(run: CaseRun) -> None:
    """Nothing fails: the connection to the node of the metadata is the second one."""
    error = send_error(run.acked_producer(), "orders", "first")

    asked = [each for each in run.wire.requests("ApiVersions") if each.api_version >= 5]
    if error is None and not asked:
        run.not_exercised(f"the client sends ApiVersions {_highest_version(run)}: cluster and node come with version 5")
    named = [each for each in asked if each.request.cluster_id == run.cluster.cluster_id and each.request.node_id == 0]
    run.expect(error is None, "the record is delivered", seen=error)
    given = [(each.request.cluster_id, each.request.node_id) for each in asked]
    run.expect(named, f"ApiVersions with {run.cluster.cluster_id} and node 0", seen=given, exchanges=asked)


def _highest_version(run: CaseRun) -> object:
    """The highest version of ApiVersions that was sent, as a text or a number."""
    return max((each.api_version for each in run.wire.requests("ApiVersions")), default="in no version")
