"""Creation and deletion of topics for callers outside a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.config_changes import check_config
from mockbroker.state.metadata.configs import Resource, ResourceKind

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.state.metadata.topics import Topic


def create_topic(
    cluster: ClusterState,
    name: str,
    partition_count: int,
    *,
    replication_factor: int | None,
    configs: Mapping[str, str],
) -> None:
    """Create a topic with its configurations. Raises: KafkaError, as CreateTopics; then nothing is changed."""
    cluster.metadata.check_topic_name(name)
    resource = Resource(ResourceKind.TOPIC, name)
    check_config(cluster.configs, resource, configs)
    topic = cluster.metadata.plan_topic(name, partition_count=partition_count, replication_factor=replication_factor)
    cluster.configs.set_overrides(resource, dict(configs))
    cluster.metadata.add_topic(topic)


def delete_topic(cluster: ClusterState, name: str) -> None:
    """Delete a topic. Raises: UNKNOWN_TOPIC_OR_PARTITION."""
    cluster.metadata.delete_topic(find_topic(cluster, name))


def find_topic(cluster: ClusterState, name: str) -> Topic:
    """A topic. Raises: UNKNOWN_TOPIC_OR_PARTITION."""
    topic = cluster.metadata.topic(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    return topic
