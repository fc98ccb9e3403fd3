"""Groups, share partitions and coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.control.models import groups as models
from mockbroker.control.operations import ClusterContext
from mockbroker.control.problems import ProblemError, ProblemKind

if TYPE_CHECKING:
    from mockbroker.broker.group_views import GroupView
    from mockbroker.broker.inspection import SharePartitionView


def list_groups(control: ClusterContext, parameters: models.GroupsParameters) -> models.Groups:
    """All groups of every type, with members, assignments, offsets and lag."""
    views = [view for view in control.cluster.groups() if parameters.kind in (None, view.kind)]
    return models.Groups(groups=[group_model(view) for view in views])


def get_group(control: ClusterContext, parameters: models.GroupPath) -> models.Group:
    """A group."""
    view = control.cluster.group(parameters.group_id)
    if view is None:
        raise ProblemError(ProblemKind.NOT_FOUND, f"there is no group {parameters.group_id!r}")
    return group_model(view)


def delete_group(control: ClusterContext, parameters: models.GroupPath) -> None:
    """Delete a group without members, with its offsets and the state of its share partitions."""
    control.cluster.delete_group(parameters.group_id)


def list_share_partitions(control: ClusterContext, parameters: models.GroupPath) -> models.SharePartitions:
    """The share partitions of a group that are in their leaders' memory, with each record in flight."""
    views = control.cluster.share_partitions(parameters.group_id)
    now_ms = control.cluster.clock.now_ms()
    return models.SharePartitions(share_partitions=[share_partition_model(view, now_ms) for view in views])


def get_share_partition(control: ClusterContext, parameters: models.SharePartitionParameters) -> models.SharePartition:
    """A share partition: its records in flight with state, owner, delivery count and remaining lock time."""
    group_id, topic, partition = parameters.group_id, parameters.topic, parameters.partition
    view = control.cluster.share_partition(group_id, topic, partition)
    if view is None:
        raise ProblemError(
            ProblemKind.NOT_FOUND, f"no fetch of group {group_id!r} has requested {topic}-{partition} at its leader"
        )
    return share_partition_model(view, control.cluster.clock.now_ms(), has_history=parameters.history)


def get_coordinator(control: ClusterContext, parameters: models.CoordinatorPath) -> models.Coordinator:
    """The node that coordinates a group or a transactional id; its internal topic is created on first use."""
    node = control.cluster.coordinator(parameters.key, kind=parameters.kind)
    return models.Coordinator(kind=parameters.kind, key=parameters.key, node=node)


def move_coordinator(
    control: ClusterContext, parameters: models.CoordinatorPath, body: models.CoordinatorMove
) -> models.Coordinator:
    """Make another node the coordinator of a group or a transactional id."""
    control.cluster.move_coordinator(parameters.key, kind=parameters.kind, to=body.to)
    return get_coordinator(control, parameters)


def group_model(view: GroupView) -> models.Group:
    """A group as it is sent."""
    return models.Group(
        group_id=view.group_id,
        kind=view.kind,
        state=view.state,
        members=[
            models.Member(
                member_id=member.member_id,
                client_id=member.client_id,
                client_host=member.client_host,
                instance_id=member.instance_id,
                epoch=member.epoch,
                partitions={topic: list(indexes) for topic, indexes in member.partitions.items()},
            )
            for member in view.members
        ],
        offsets=[
            models.GroupOffset(
                topic=row.topic, partition=row.partition, offset=row.offset, end_offset=row.end_offset, lag=row.lag
            )
            for row in view.offsets
        ],
    )


def share_partition_model(view: SharePartitionView, now_ms: int, *, has_history: bool = False) -> models.SharePartition:
    """A share partition as it is sent. now_ms: by the cluster's clock, for the remaining time of locks."""
    return models.SharePartition(
        group_id=view.group_id,
        topic=view.topic,
        partition=view.partition,
        leader=view.leader,
        status=view.status.name,
        state_epoch=view.state_epoch,
        start_offset=view.start_offset,
        end_offset=view.end_offset,
        delivery_complete_count=view.delivery_complete_count,
        in_flight=[
            models.InFlight(
                first_offset=run.first_offset,
                last_offset=run.last_offset,
                state=run.state.name,
                delivery_count=run.delivery_count,
                member_id=run.member_id,
                lock_deadline_ms=run.lock_deadline_ms,
                lock_remaining_ms=None if run.lock_deadline_ms is None else max(run.lock_deadline_ms - now_ms, 0),
                is_in_transition=run.is_in_transition,
            )
            for run in view.in_flight
        ],
        now_ms=now_ms,
        history=_history(view) if has_history else None,
    )


def _history(view: SharePartitionView) -> list[models.ShareEvent]:
    return [
        models.ShareEvent(
            at_ms=entry.at_ms,
            event=entry.event.value,
            first_offset=entry.first_offset,
            last_offset=entry.last_offset,
            member_id=entry.member_id,
            delivery_count=entry.delivery_count,
            state=entry.state.name,
        )
        for entry in view.history
    ]
