"""Deleting what share coordinators store for a group: for DeleteGroups and DeleteShareGroupOffsets."""

from __future__ import annotations

from collections.abc import Callable

from kwire.error_codes import ErrorCode
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share_coordinator import ShareKey
from mockbroker.state.share_group import ShareGroup


def delete_share_states(
    group: ShareGroup,
    topic_ids: set[bytes],
    ctx: Context,
    done: Callable[[dict[bytes, ErrorCode], int], None],
    *,
    keep_group: bool = False,
) -> None:
    """Delete the state of whole topics; `done` gets the first error of each topic, or NONE, once all are back.

    From now on the topics count as being deleted, also for the next coordinator; those that fail stay so, and can be
    asked for again. keep_group: the ones that are deleted are noted as such, as the group itself stays.
    Source: share-semantics 6.5 and 6.6.
    """
    group.states.prune(ctx.cluster.metadata)  # The state of a topic that is no more went with it.
    topic_ids = {topic_id for topic_id in topic_ids if ctx.cluster.metadata.topic_by_id(topic_id) is not None}
    keys = [
        ShareKey(group.group_id, topic_id, index)
        for topic_id in sorted(topic_ids)
        for index in sorted(group.states.known(topic_id, ctx.cluster.metadata))
    ]
    errors = dict.fromkeys(sorted(topic_ids), ErrorCode.NONE)
    group.states.start_deleting(topic_ids)
    group.write(ctx.now_ms)
    waiting = set(keys)

    def finish(now_ms: int) -> None:
        if ctx.node.groups.find(group.group_id) is not group:
            # Another node coordinates the group now: what has become of the topics is for it to find out.
            errors.update(dict.fromkeys(errors, ErrorCode.NOT_COORDINATOR))
        elif keep_group:
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
