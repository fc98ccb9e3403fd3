"""Snapshots of the nodes of a cluster and of its topics with their leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kwire import uuids
from mockbroker.state.metadata.configs import Resource, ResourceKind

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.broker.node import Node
    from mockbroker.state.metadata.topics import Partition, Topic

NodeState = Literal["running", "paused", "down"]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node at one moment. endpoints: HOST:PORT by the name of the listener, as clients are given it."""

    node_id: int
    state: NodeState
    is_controller: bool
    rack: str | None
    endpoints: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition at one moment.

    leader: -1 for none. start_offset: of the first record that exists. end_offset: the high watermark, behind the last
    record that consumers read.
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic at one moment. configs: those that are set for the topic."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionView, ...]
    configs: Mapping[str, str]


def node_views(cluster: ClusterState, nodes: Iterable[Node]) -> list[NodeView]:
    """These nodes of a cluster, which may be down, in their order."""
    controller_id = cluster.metadata.controller_id
    return [
        NodeView(
            node.node_id,
            _node_state(cluster, node.node_id),
            node.node_id == controller_id,
            node.rack,
            {name: "{}:{}".format(*node.endpoint(name)) for name in node.listener_names()},
        )
        for node in nodes
    ]


def _node_state(cluster: ClusterState, node_id: int) -> NodeState:
    if node_id not in cluster.inter_broker.nodes:
        return "down"
    return "paused" if node_id in cluster.inter_broker.paused else "running"


def topic_views(cluster: ClusterState) -> list[TopicView]:
    """All topics by their names, internal ones included."""
    return [topic_view(cluster, topic) for topic in sorted(cluster.metadata.topics(), key=lambda topic: topic.name)]


def topic_view(cluster: ClusterState, topic: Topic) -> TopicView:
    """A topic with its partitions."""
    partitions = tuple(_partition_view(cluster, topic, partition) for partition in topic.partitions)
    configs = dict(cluster.configs.overrides(Resource(ResourceKind.TOPIC, topic.name)))
    return TopicView(topic.name, uuids.to_text(topic.topic_id), topic.internal, partitions, configs)


def _partition_view(cluster: ClusterState, topic: Topic, partition: Partition) -> PartitionView:
    assert cluster.log_store is not None
    log = cluster.log_store.open_log(topic, partition.index)
    return PartitionView(
        partition.index,
        partition.leader,
        partition.leader_epoch,
        partition.replicas,
        partition.isr,
        log.start_offset,
        log.high_watermark,
    )
