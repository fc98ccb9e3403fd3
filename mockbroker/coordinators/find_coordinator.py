"""Coordinator look-up, which creates the coordinator's internal topic if it does not exist.

Source: Kafka's KafkaApis.getCoordinator and AutoTopicCreationManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.cluster_services.inter_broker import InterBrokerChannel
    from mockbroker.state.metadata.cluster_image import ClusterImage
    from mockbroker.state.metadata.topics import CoordinatorKind

NO_COORDINATOR = -1


def lookup_coordinator(
    metadata: ClusterImage, channel: InterBrokerChannel[object], kind: CoordinatorKind, key: str, *, now_ms: int
) -> int:
    """The id of the node that coordinates a key, or NO_COORDINATOR.

    In a cold cluster the first look-up requests the topic from the controller; later ones find it.
    """
    if metadata.is_cold and not metadata.has_internal_topic(kind):

        def create_topic(_at_ms: int) -> None:
            metadata.ensure_internal_topic(kind)

        channel.schedule(channel.latency_ms, create_topic, now_ms=now_ms, owner=None)
        return NO_COORDINATOR
    return metadata.coordinator_id(kind, key)
