"""Metadata: how old they get, what changes in them, and their errors."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import send_error

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
)
def max_age(run: CaseRun) -> None:
    """Nothing fails. metadata_max_age_ms is 300."""
    error = send_error(run.producer(metadata_max_age_ms=300), "orders", "first")
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
)
def new_partition(run: CaseRun) -> None:
    """After the first record the topic gets a second partition. metadata_max_age_ms is 300."""
    producer = run.producer(metadata_max_age_ms=300)
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
)
def leader_not_available(run: CaseRun) -> None:
    """The first two Metadata requests that name the topic are answered with LEADER_NOT_AVAILABLE for it."""
    run.cluster.faults.add("Metadata", topic="orders", times=2, error="LEADER_NOT_AVAILABLE", optional=True)

    error = send_error(run.producer(), "orders", "first")

    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.wire.requests("Metadata"))


@case(
    "connecting.metadata.node-added",
    title="A node that joins the cluster",
    level=Level.MUST,
    rule="A client connects to a node that it sees in metadata for the first time.",
    source=Source("Kafka protocol guide", "Partitioning and bootstrapping"),
    needs=("producer",),
    cluster=ClusterPlan(properties={"default.replication.factor": 2}),
)
def node_added(run: CaseRun) -> None:
    """A second node joins, and a topic is created whose leader is moved to it."""
    producer = run.producer()
    run.cluster.create_topic("first", replication_factor=1)
    first = send_error(producer, "first", "first")
    added = run.cluster.add_node()
    run.cluster.create_topic("orders", replication_factor=2)
    if run.cluster.describe_topic("orders").partitions[0].leader != added:
        run.cluster.move_leader("orders", 0, to=added)

    error = send_error(producer, "orders", "second")

    run.expect([first, error] == [None, None], "both records are delivered", seen=[first, error])
    run.wire.assert_sent("Produce", node=added)


@case(
    "connecting.metadata.cluster",
    title="The id, controller and nodes of the cluster",
    level=Level.MUST,
    rule="The admin client shows the cluster's id and nodes as the broker gives them.",
    source=Source("KIP-117", "AdminClient.describeCluster", "kafka-clients Admin.describeCluster"),
    needs=("admin.cluster",),
    cluster=ClusterPlan(nodes=2),
)
def cluster(run: CaseRun) -> None:
    """Nothing fails."""
    found = run.admin().describe_cluster()

    nodes = {f"{node.host}:{node.port}" for node in found.nodes}
    expected = set(run.cluster.bootstrap_servers.split(","))
    run.expect(found.cluster_id == run.cluster.cluster_id, run.cluster.cluster_id, seen=found.cluster_id)
    run.expect(nodes == expected, f"{expected}", seen=nodes)


@case(
    "connecting.metadata.another-cluster",
    title="Another cluster at the bootstrap address",
    level=Level.MAY,
    rule="A client that sends ApiVersions 5 names the cluster and node that it expects, to detect another one.",
    source=Source("KIP-1242", "Proposed Changes"),
    needs=("producer",),
    cluster=_ONE,
)
def another_cluster(run: CaseRun) -> None:
    """Nothing fails: the connection to the node of the metadata is the second one."""
    error = send_error(run.producer(), "orders", "first")

    asked = [each for each in run.wire.requests("ApiVersions") if each.api_version >= 5]
    named = [each for each in asked if each.request.cluster_id == run.cluster.cluster_id and each.request.node_id == 0]
    run.expect(error is None, "the record is delivered", seen=error)
    run.expect(named, "ApiVersions with the cluster id and node 0", exchanges=run.wire.requests("ApiVersions"))
