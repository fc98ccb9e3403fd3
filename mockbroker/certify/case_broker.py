"""What a case is played against: a cluster of its own, or a real Kafka behind a proxy that records the exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from mockbroker.certify.case import Case, ClusterPlan
from mockbroker.certify.case_cluster import append_records, create_cluster, security_settings, start_all_nodes
from mockbroker.certify.kafka_admin import KafkaAdmin, KafkaUnavailable
from mockbroker.cluster import Cluster
from mockbroker.cluster_methods.methods import SharedMethods
from mockbroker.proxy.proxy import Proxy


class CaseBroker(Protocol):
    """Where a case is played. wire: questions and waits; settings: that clients need in addition to the addresses."""

    @property
    def wire(self) -> SharedMethods:
        """The recorded exchanges."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Neutral settings of clients."""

    def produce(self, topic: str, values: tuple[str | None, ...], partition: int) -> None:
        """Append records."""

    def check(self) -> None:
        """Raises: AssertionError if a fault has not acted."""

    def settle(self) -> None:
        """Let clients close: without faults, with all nodes."""


#: Opens the broker of a case; the path is that of the capture to write.
OpenBroker = Callable[[Case, Path], AbstractContextManager[CaseBroker]]


class _MockBroker:
    def __init__(self, cluster: Cluster) -> None:
        self.wire = cluster
        self.settings = security_settings(cluster)

    def produce(self, topic: str, values: tuple[str | None, ...], partition: int) -> None:
        append_records(self.wire, topic, values, partition)

    def check(self) -> None:
        self.wire.check_faults()

    def settle(self) -> None:
        with suppress(RuntimeError):  # The case has stopped the cluster.
            if self.wire.has_faults:
                self.wire.faults.clear()
            self.wire.clock.thaw()
            start_all_nodes(self.wire)


class _KafkaBroker:
    def __init__(self, proxy: Proxy, admin: KafkaAdmin) -> None:
        self.wire = proxy
        self.settings: Mapping[str, Any] = {}
        self._admin = admin

    def produce(self, topic: str, values: tuple[str | None, ...], partition: int) -> None:
        self._admin.produce(topic, values, partition)

    def check(self) -> None:
        """There are no faults."""

    def settle(self) -> None:
        """There are no faults."""


def open_mock(*, seed: int, release: str | None) -> OpenBroker:
    """Play cases against clusters of their own."""

    @contextmanager
    def open_broker(case: Case, capture: Path) -> Iterator[CaseBroker]:
        with create_cluster(case, seed=seed, release=release, capture=capture) as cluster:
            yield _MockBroker(cluster)

    return open_broker


def open_kafka(admin: KafkaAdmin, *, seed: int) -> OpenBroker:
    """Play cases against a real cluster, one at a time: topics and groups of a case are deleted after it."""

    @contextmanager
    def open_broker(case: Case, capture: Path) -> Iterator[CaseBroker]:
        groups = admin.groups()
        admin.create_topics(case.cluster.topics)
        try:
            with Proxy(admin.bootstrap, capture=capture, seed=seed) as proxy:
                yield _KafkaBroker(proxy, admin)
        finally:
            admin.delete_topics(list(case.cluster.topics))
            admin.delete_groups(admin.groups() - groups)

    return open_broker


def is_playable_on_kafka(case: Case, node_count: int) -> bool:
    """Whether a case needs only topics, and as many nodes as the real cluster has."""
    plan = case.cluster
    return case.on_kafka and plan == ClusterPlan(nodes=plan.nodes, topics=plan.topics) and plan.nodes <= node_count


def refuse_used_topics(admin: KafkaAdmin, cases: list[Case]) -> None:
    """Refuse a cluster that has topics of the cases, which would be deleted. Raises: KafkaUnavailable."""
    used = sorted(admin.topic_names() & {name for case in cases for name in case.cluster.topics})
    if used:
        raise KafkaUnavailable(
            f"the cluster has the topic {', '.join(used)}, which the cases would delete: use another"
        )
