"""Looking for a coordinator, which has its internal topic made when there is none yet.

Source: Kafka's KafkaApis.getCoordinator and AutoTopicCreationManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.calls import Calls
    from mockbroker.state.metadata import Metadata
    from mockbroker.state.topics import CoordinatorKind

NOBODY = -1


def find(metadata: Metadata, calls: Calls, kind: CoordinatorKind, key: str, *, now_ms: int) -> int:
    """The node that coordinates a key, or NOBODY.

    In a cold cluster nobody does until the controller has made the topic, of which later looks hear.
    """
    if metadata.is_cold and not metadata.has_internal_topic(kind):

        def make(_at_ms: int) -> None:
            metadata.make_internal_topic(kind)

        calls.later(calls.latency_ms, make, now_ms=now_ms)
        return NOBODY
    return metadata.coordinator_for(kind, key)
