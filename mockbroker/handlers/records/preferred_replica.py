"""The replica that a consumer is sent to by the leader (KIP-392). Source: Kafka's RackAwareReplicaSelector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.state.metadata.cluster_image import Topic

if TYPE_CHECKING:
    from mockbroker.engine.context import Context


def find_preferred_replica(topic: Topic, partition_index: int, offset: int, rack: str, ctx: Context) -> int | None:
    """A follower in the consumer's rack that is in sync and has the offset; None for the leader.

    Of several the one with the longest log, then the one that caught up last, then the one with the largest id.
    """
    partition, node = topic.partitions[partition_index], ctx.node
    nodes = ctx.cluster.nodes
    if not rack or partition.leader != node.node_id or node.rack == rack:
        return None
    led = None if node.replication is None else node.replication.find_led((topic.topic_id, partition_index))
    candidates: list[tuple[int, int, int]] = []
    for node_id in partition.isr:
        if node_id == partition.leader or node_id not in nodes or nodes[node_id].rack != rack:
            continue
        if led is None:
            if node.replication is None:  # It has all that the leader has.
                candidates.append((0, 0, node_id))
            continue
        progress = led.replicas.followers.get(node_id)
        if progress is not None and progress.log_start_offset <= offset <= progress.end_offset:
            candidates.append((progress.end_offset, progress.caught_up_ms, node_id))
    return max(candidates)[2] if candidates else None
