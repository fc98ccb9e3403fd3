"""Deletions of share-partitions' state that a coordinator had begun and not ended: who takes its place goes on.

Kafka 4.3.0 leaves them until somebody asks for the same again. The drafts list topics as being deleted so that an
interrupted deletion can be completed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mockbroker.kafka_error import KafkaError
from mockbroker.state.share_coordinator import ShareKey
from mockbroker.state.share_group import ShareGroup

if TYPE_CHECKING:
    from mockbroker.node import Node
    from mockbroker.state.groups import Groups
    from mockbroker.state.metadata import Metadata


def go_on_deleting(groups: Groups, group: ShareGroup, node: Node, metadata: Metadata, *, now_ms: int) -> None:
    """Delete what a group that was loaded has listed as being deleted, and have it struck off the list."""
    group.states.prune(metadata)
    for topic_id in sorted(group.states.deleting):
        waiting = {ShareKey(group.group_id, topic_id, index) for index in group.states.known(topic_id, metadata)}
        for key in sorted(waiting):
            node.persister.delete(key, done=_done(groups, group, key, waiting), now_ms=now_ms)


def _done(
    groups: Groups, group: ShareGroup, key: ShareKey, waiting: set[ShareKey]
) -> Callable[[KafkaError | None, int], None]:
    def note(answer: KafkaError | None, now_ms: int) -> None:
        if isinstance(answer, KafkaError):
            return  # It stays on the list, for the next coordinator or the next request.
        waiting.discard(key)
        if not waiting and groups.find(group.group_id) is group and key.topic_id in group.states.deleting:
            group.states.deleted({key.topic_id})
            group.write(now_ms)

    return note
