"""Waits: they answer when the state is there, or with a problem that says what was seen instead."""

from __future__ import annotations

from mockbroker.control.models import waits as models
from mockbroker.control.models.clusters import Node
from mockbroker.control.models.common import NoParameters
from mockbroker.control.models.exchanges import Exchanges
from mockbroker.control.models.groups import Group
from mockbroker.control.operations import ClusterContext, ControlContext
from mockbroker.control.resources.clusters import node_model
from mockbroker.control.resources.exchanges import error_of, exchanges_model, filters_of
from mockbroker.control.resources.faults import find_fault
from mockbroker.control.resources.groups import group_model


async def wait_for_group(control: ClusterContext, parameters: NoParameters, body: models.GroupWait) -> Group:
    """Wait for a group in a state, with a number of members."""
    view = await control.cluster.aio.wait_for_group(
        body.group_id, state=body.state, members=body.members, timeout_s=body.timeout_ms / 1000
    )
    return group_model(view)


async def wait_for_share_members(
    control: ClusterContext, parameters: NoParameters, body: models.ShareMembersWait
) -> Group:
    """Wait until a share group has this many members, all with the current assignment."""
    view = await control.cluster.aio.wait_for_share_members(
        body.group_id, body.members, is_active=body.is_active, timeout_s=body.timeout_ms / 1000
    )
    return group_model(view)


async def wait_for_node(control: ClusterContext, parameters: NoParameters, body: models.NodeWait) -> Node:
    """Wait until a node is running, paused or down."""
    view = await control.cluster.aio.wait_for_node(body.node, state=body.state, timeout_s=body.timeout_ms / 1000)
    return node_model(view)


async def wait_for_offset(
    control: ClusterContext, parameters: NoParameters, body: models.OffsetWait
) -> models.ReachedOffset:
    """Wait until a group has committed this offset or a later one."""
    offset = await control.cluster.aio.wait_for_offset(
        body.group_id, body.topic, body.partition, body.offset, timeout_s=body.timeout_ms / 1000
    )
    return models.ReachedOffset(group_id=body.group_id, topic=body.topic, partition=body.partition, offset=offset)


async def wait_for_held(
    control: ControlContext, parameters: NoParameters, body: models.HeldWait
) -> models.HeldRequests:
    """Wait until a fault holds this many requests."""
    handle = find_fault(control, body.fault)
    held = await control.cluster.aio.wait_for_held(handle, body.count, timeout_s=body.timeout_ms / 1000)
    return models.HeldRequests(fault=body.fault, held=held)


async def wait_for_request(control: ControlContext, parameters: NoParameters, body: models.RequestWait) -> Exchanges:
    """Wait until this many requests match, those before the call included."""
    filters = filters_of(body)
    history = await control.cluster.aio.wait_for_request(
        body.api,
        count=body.count,
        answered=body.answered,
        error=error_of(body.error),
        timeout_s=body.timeout_ms / 1000,
        **filters,
    )
    return exchanges_model(control, history)
