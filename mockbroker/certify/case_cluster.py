"""The cluster of a case: started from its plan, with the seed of the run and the case."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from mockbroker.certify.case import Case
from mockbroker.cluster import Cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share.share_partition import PartitionStatus

#: The names of librdkafka's settings, by the neutral ones.
_SECURITY_SETTINGS = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanisms",
    "username": "sasl.username",
    "password": "sasl.password",
    "tls_ca_file": "ssl.ca.location",
}

#: The replicas of topics, unless there are fewer nodes or the plan has `default.replication.factor`.
REPLICAS_MAX = 3


def case_seed(seed: int, case_id: str) -> int:
    """The seed of the cluster of a case: the same in each run with this seed, whatever else is played."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{case_id}".encode()).digest()[:6], "big")


def create_cluster(case: Case, *, seed: int, release: str | None, capture: Path | None) -> Cluster:
    """The cluster of a case, not started. capture: a pcapng file to write. Raises: ConfigError."""
    plan = case.cluster
    return Cluster(
        nodes=plan.nodes,
        topics=plan.topics,
        properties={"default.replication.factor": min(plan.nodes, REPLICAS_MAX), **plan.properties},
        features=plan.features,
        versions=plan.versions,
        tls=plan.tls,
        sasl=plan.sasl,
        add_scram=plan.add_scram,
        profile="quick",
        seed=case_seed(seed, case.id),
        release=release,
        capture=capture,
    )


def security_settings(cluster: Cluster) -> dict[str, Any]:
    """The neutral settings that a client needs for TLS and its login; none of a plain cluster."""
    known = cluster.client_settings("librdkafka")
    found = {name: known[key] for name, key in _SECURITY_SETTINGS.items() if key in known}
    return {} if str(found.get("security_protocol", "PLAINTEXT")).upper() == "PLAINTEXT" else found


def append_records(cluster: Cluster, topic: str, values: tuple[str | None, ...], partition: int) -> None:
    """Append records at the leader of a partition."""
    cluster.produce_all(topic, [{"value": value, "partition": partition} for value in values])


def has_active_partitions(cluster: Cluster, group_id: str, topics: Iterable[str]) -> bool:
    """Whether all partitions of these topics are active in a share group at their leaders."""
    counts = cluster.topics()
    active = {
        (view.topic, view.partition)
        for view in cluster.share_partitions(group_id)
        if view.status is PartitionStatus.ACTIVE
    }
    return all((topic, index) in active for topic in topics for index in range(counts[topic]))


def start_all_nodes(cluster: Cluster) -> None:
    """Start and resume the nodes that a case has stopped, so that clients can close."""
    for node in cluster.nodes():
        with suppress(KafkaError, OSError):
            if node.state == "paused":
                cluster.resume_node(node.node_id)
            elif node.state != "running":
                cluster.start_node(node.node_id)
