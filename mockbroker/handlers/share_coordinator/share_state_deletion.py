"""Deletion of share group state at the share coordinators, for DeleteGroups and DeleteShareGroupOffsets."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kwire.error_codes import ErrorCode
from mockbroker.engine.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share.share_group import ShareGroup
from mockbroker.state.share_coordinator.share_coordinator import ShareKey


class ShareStateDeletion:
    """The deletion of the state of whole topics.

    Once created, the topics are recorded as being deleted, so that another coordinator continues; `delete_states` sends
    the requests to the share coordinators. Topics that fail keep their state and can be deleted again.
    keep_group: the group is not deleted; the deletion is recorded, and initializing partitions are left as they are.
    listed_twice: topics of which all partitions are deleted, as the second row finds them being deleted.
    Source: share-semantics 6.5 and 6.6; Kafka's sharePartitionsEligibleForOffsetDeletion and
    shareGroupBuildPartitionDeleteRequest.
    """

    def __init__(
        self,
        group: ShareGroup,
        topic_ids: set[bytes],
        ctx: Context,
        *,
        keep_group: bool = False,
        listed_twice: Collection[bytes] = (),
    ) -> None:
        metadata = ctx.cluster.metadata
        group.partition_states.remove_deleted_topics(metadata)  # The state of a deleted topic is gone.
        existing = sorted(topic_id for topic_id in topic_ids if metadata.topic_by_id(topic_id) is not None)
        partitions = (
            group.partition_states.initialized_or_deleting_partitions
            if keep_group
            else group.partition_states.partitions_with_state
        )
        self._group = group
        self._keep_group = keep_group
        self._errors = dict.fromkeys(existing, ErrorCode.NONE)
        self._keys = [
            ShareKey(group.group_id, topic_id, index)
            for topic_id in existing
            for index in sorted(partitions(topic_id, metadata) | _all_partitions(topic_id, listed_twice, ctx))
        ]
        if existing or keep_group or ctx.cluster.rules.group_records.lists_before_empty_deletion:
            group.partition_states.start_deleting(set(existing), keep_initializing=keep_group)
            group.write_records(ctx.now_ms)

    def delete_states(self, ctx: Context, on_done: Callable[[dict[bytes, ErrorCode], int], None]) -> None:
        """Delete; `on_done` gets the first error of each topic, or NONE, after all responses."""
        group, errors, keys = self._group, self._errors, self._keys
        waiting = set(keys)

        def finish(now_ms: int) -> None:
            if ctx.node.groups.find_group(group.group_id) is not group:
                # Another node coordinates the group now, and continues the deletion.
                errors.update(dict.fromkeys(errors, ErrorCode.NOT_COORDINATOR))
            elif self._keep_group:
                group.partition_states.complete_deleting(
                    {topic_id for topic_id, error in errors.items() if error is ErrorCode.NONE}
                )
                try:
                    group.write_records(now_ms)
                except KafkaError as error:  # The group is loaded again, with the deletion that it has recorded.
                    errors.update(dict.fromkeys(errors, error.code))
            on_done(errors, now_ms)

        def one_done(key: ShareKey) -> Callable[[KafkaError | None, int], None]:
            def on_response(answer: KafkaError | None, now_ms: int) -> None:
                if isinstance(answer, KafkaError) and errors[key.topic_id] is ErrorCode.NONE:
                    errors[key.topic_id] = answer.code
                waiting.discard(key)
                if not waiting:
                    finish(now_ms)

            return on_response

        if any(key.partition < 0 for key in keys) or self._has_only_some_partitions():
            # Recorded by an AlterShareGroupOffsets; Kafka's persister sends no request for it either.
            errors.update(dict.fromkeys(errors, ErrorCode.UNKNOWN_SERVER_ERROR))
            keys = []
        if not keys:
            finish(ctx.now_ms)
        for key in keys:
            ctx.node.persister.delete_states(key, done=one_done(key), now_ms=ctx.now_ms)

    def _has_only_some_partitions(self) -> bool:
        """Whether a topic of a group to delete has no partition with state, and another one has.

        An alteration records a topic even without partitions. Pinned by share-offsets-alter-no-partitions.
        """
        with_state = {key.topic_id for key in self._keys}
        return not self._keep_group and bool(with_state) and with_state != self._errors.keys()


def _all_partitions(topic_id: bytes, listed_twice: Collection[bytes], ctx: Context) -> frozenset[int]:
    topic = ctx.cluster.metadata.topic_by_id(topic_id)
    return frozenset(range(len(topic.partitions))) if topic is not None and topic_id in listed_twice else frozenset()
