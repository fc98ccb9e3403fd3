"""Deleting what share coordinators store for a group: for DeleteGroups and DeleteShareGroupOffsets."""

from __future__ import annotations

from collections.abc import Callable

from kwire.error_codes import ErrorCode
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share_coordinator import ShareKey
from mockbroker.state.share_group import ShareGroup


class ShareStateDeletion:
    """The deletion of the state of whole topics.

    From its making on the topics count as being deleted, also for the next coordinator, which is written; `ask` has
    the share coordinators delete them. Those that fail stay as they are, and can be asked for again.
    keep_group: the group stays, so what is deleted is noted as such, and what is being initialised is left alone.
    Source: share-semantics 6.5 and 6.6; Kafka's sharePartitionsEligibleForOffsetDeletion and
    shareGroupBuildPartitionDeleteRequest.
    """

    def __init__(self, group: ShareGroup, topic_ids: set[bytes], ctx: Context, *, keep_group: bool = False) -> None:
        metadata = ctx.cluster.metadata
        group.states.prune(metadata)  # The state of a topic that is no more went with it.
        known = sorted(topic_id for topic_id in topic_ids if metadata.topic_by_id(topic_id) is not None)
        partitions = group.states.initialized_or_deleting if keep_group else group.states.known
        self._group = group
        self._keep_group = keep_group
        self._errors = dict.fromkeys(known, ErrorCode.NONE)
        self._keys = [
            ShareKey(group.group_id, topic_id, index)
            for topic_id in known
            for index in sorted(partitions(topic_id, metadata))
        ]
        if known or keep_group or ctx.cluster.rules.notes_empty_deletions:
            group.states.start_deleting(set(known), keep_initializing=keep_group)
            group.write(ctx.now_ms)

    def ask(self, ctx: Context, done: Callable[[dict[bytes, ErrorCode], int], None]) -> None:
        """Delete; `done` gets the first error of each topic, or NONE, once all are back."""
        group, errors, keys = self._group, self._errors, self._keys
        waiting = set(keys)

        def finish(now_ms: int) -> None:
            if ctx.node.groups.find(group.group_id) is not group:
                # Another node coordinates the group now: what has become of the topics is for it to find out.
                errors.update(dict.fromkeys(errors, ErrorCode.NOT_COORDINATOR))
            elif self._keep_group:
                group.states.deleted({topic_id for topic_id, error in errors.items() if error is ErrorCode.NONE})
                group.write(now_ms)
            done(errors, now_ms)

        def one_done(key: ShareKey) -> Callable[[KafkaError | None, int], None]:
            def note(answer: KafkaError | None, now_ms: int) -> None:
                if isinstance(answer, KafkaError) and errors[key.topic_id] is ErrorCode.NONE:
                    errors[key.topic_id] = answer.code
                waiting.discard(key)
                if not waiting:
                    finish(now_ms)

            return note

        if any(key.partition < 0 for key in keys):
            # What AlterShareGroupOffsets has noted and refused; Kafka's persister asks nobody for such a one either.
            errors.update(dict.fromkeys(errors, ErrorCode.UNKNOWN_SERVER_ERROR))
            keys = []
        if not keys:
            finish(ctx.now_ms)
        for key in keys:
            ctx.node.persister.delete(key, done=one_done(key), now_ms=ctx.now_ms)
