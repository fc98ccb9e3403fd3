"""StreamsGroupTopologyDescriptionUpdate (93), and the descriptions in other responses (KIP-1331).

Pinned by the conversations other-streams-44-settings, without a plugin, and other-streams-44-descriptions, with one.
"""

from __future__ import annotations

from enum import IntEnum

from kwire.error_codes import ErrorCode
from kwire.messages import streams_group_describe as describe
from kwire.messages import streams_group_topology_description_update as messages
from kwire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.groups.find_coordinator import require_coordinator
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize
from mockbroker.handlers.shared.await_replication import await_replication
from mockbroker.handlers.streams.streams_requests import require_streams_groups
from mockbroker.kafka_error import KafkaError
from mockbroker.state.streams.streams_group import StreamsGroup, StreamsHeartbeat
from mockbroker.state.streams.streams_topics import StatusCode

#: From this version on heartbeats ask for a description, and descriptions of groups have it.
_SINCE = 1


class NodeType(IntEnum):
    """The types of nodes of a topology."""

    SOURCE = 1
    PROCESSOR = 2
    SINK = 3


class DescriptionStatus(IntEnum):
    """The status of the description in a description of a group."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    ERROR = 2
    AVAILABLE = 3


@await_replication
def update_topology_description(request: StreamsGroupTopologyDescriptionUpdateRequest, ctx: Context) -> Outcome:
    """Store the description of a group's topology."""
    require_streams_groups(ctx)
    authorize(AclOperation.READ, ResourceType.GROUP, request.group_id, ctx)
    if not ctx.node.config.stores_topology_descriptions:
        text = "The broker has no plugin for topology descriptions (group.streams.topology.description.plugin.class)."
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id)):
        if not value.strip():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is blank.")
    require_coordinator(request.group_id, ctx)
    group = ctx.node.groups.get_streams_group(request.group_id)
    group.check_description(request.member_id, request.topology_epoch)
    description = _to_stored(request.topology_description)
    group.set_described_epoch(request.topology_epoch, now_ms=ctx.now_ms)
    ctx.cluster.topology_descriptions.store(request.group_id, description)
    return Reply(StreamsGroupTopologyDescriptionUpdateResponse())


def is_description_required(group: StreamsGroup, heartbeat: StreamsHeartbeat, ctx: Context) -> bool:
    """Return whether the response of a heartbeat asks the member for a description of the topology."""
    if ctx.api_version < _SINCE or not ctx.node.config.stores_topology_descriptions:
        return False
    if heartbeat.topology_epoch == group.described_epoch:
        return False
    if any(status.code is StatusCode.STALE_TOPOLOGY for status in heartbeat.statuses):
        return False
    descriptions = ctx.cluster.topology_descriptions
    return descriptions.request(group.group_id, heartbeat.topology_epoch, now_ms=ctx.now_ms, rng=ctx.rng)


def add_description(row: describe.DescribedGroup, group: StreamsGroup, ctx: Context) -> None:
    """Add the stored description of the topology to the description of a group."""
    row.topology_description_status = int(DescriptionStatus.NOT_STORED)
    if group.topology is None or group.described_epoch != group.topology.epoch:
        return
    row.topology_description = ctx.cluster.topology_descriptions.find(group.group_id)
    if row.topology_description is not None:
        row.topology_description_status = int(DescriptionStatus.AVAILABLE)


def _to_stored(description: messages.TopologyDescription) -> describe.TopologyDescription:
    """The description as it is described: each node with the fields of its type, each name once.

    Raises: INVALID_REQUEST for other types of nodes.
    """
    subtopologies = [
        describe.TopologyDescriptionSubtopology(row.subtopology_id, list(map(_to_stored_node, row.nodes)))
        for row in description.subtopologies
    ]
    stores = [
        describe.TopologyDescriptionGlobalStore(_to_stored_node(row.source), _to_stored_node(row.processor))
        for row in description.global_stores
    ]
    if any((row.source.node_type, row.processor.node_type) != _GLOBAL_STORE for row in stores):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A global store consists of a source and a processor.")
    return describe.TopologyDescription(subtopologies, stores)


_GLOBAL_STORE = (int(NodeType.SOURCE), int(NodeType.PROCESSOR))


def _to_stored_node(node: messages.TopologyDescriptionNode) -> describe.TopologyDescriptionNode:
    if node.node_type not in tuple(NodeType):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{node.node_type} is not a type of nodes of a topology.")
    return describe.TopologyDescriptionNode(
        name=node.name,
        node_type=node.node_type,
        source_topics=_each_once(node.source_topics) if node.node_type == NodeType.SOURCE else (),
        sink_topic=node.sink_topic if node.node_type == NodeType.SINK else None,
        stores=_each_once(node.stores) if node.node_type == NodeType.PROCESSOR else (),
        successors=_each_once(node.successors),
    )


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
