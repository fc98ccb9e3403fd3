"""Resuming the deletion of share-partition state that a previous group coordinator did not complete.

Kafka 4.3.0 does not resume it until a client sends the same request again. The drafts list topics as being deleted so
that an interrupted deletion can be completed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from mockbroker.kafka_error import KafkaError
from mockbroker.state.share.share_group import ShareGroup
from mockbroker.state.share_coordinator.share_coordinator import ShareKey

if TYPE_CHECKING:
    from mockbroker.state.groups import Groups
    from mockbroker.state.metadata.cluster_image import ClusterImage


class StateDeleter(Protocol):
    """The part of a persister that deletes the stored state of share partitions."""

    def delete_states(self, key: ShareKey, *, done: Callable[[KafkaError | None, int], None], now_ms: int) -> None:
        """Delete the state of one share partition, then call `done(error or None, now_ms)`."""
        ...


def resume_deletions(
    groups: Groups, group: ShareGroup, persister: StateDeleter, metadata: ClusterImage, *, now_ms: int
) -> None:
    """Delete the topics that a loaded group lists as being deleted, and remove them from that list."""
    group.partition_states.remove_deleted_topics(metadata)
    for topic_id in sorted(group.partition_states.deleting):
        remaining = {
            ShareKey(group.group_id, topic_id, index)
            for index in group.partition_states.partitions_with_state(topic_id, metadata)
        }
        for key in sorted(remaining):
            persister.delete_states(key, done=_on_deleted(groups, group, key, remaining), now_ms=now_ms)


def _on_deleted(
    groups: Groups, group: ShareGroup, key: ShareKey, remaining: set[ShareKey]
) -> Callable[[KafkaError | None, int], None]:
    def complete(answer: KafkaError | None, now_ms: int) -> None:
        if isinstance(answer, KafkaError):
            return  # It stays on the list, for the next coordinator or the next request.
        remaining.discard(key)
        if (
            not remaining
            and groups.find_group(group.group_id) is group
            and key.topic_id in group.partition_states.deleting
        ):
            group.partition_states.complete_deleting({key.topic_id})
            # After a failed write the group is loaded again, and the deletion goes on.
            with suppress(KafkaError):
                group.write_records(now_ms)

    return complete
