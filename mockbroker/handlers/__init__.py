"""Handlers, one module for each API family; ROUTES is the whole surface of the broker, in API-key order.

The version ranges are those of Kafka 4.3.0, which lists Produce from 0 and serves it from 3.
"""

from __future__ import annotations

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.read_share_group_state import ReadShareGroupStateRequest
from kwire.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.messages.share_fetch import ShareFetchRequest
from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.messages.write_share_group_state import WriteShareGroupStateRequest
from mockbroker.handlers import classic_groups, coordinators, share_fetch, share_groups, share_state, versions
from mockbroker.routes import Route, route

_TABLE = (
    route(FindCoordinatorRequest, coordinators.find_coordinator, versions=(0, 6)),
    route(JoinGroupRequest, classic_groups.join_group, versions=(0, 9)),
    route(HeartbeatRequest, classic_groups.heartbeat, versions=(0, 4)),
    route(LeaveGroupRequest, classic_groups.leave_group, versions=(0, 5)),
    route(SyncGroupRequest, classic_groups.sync_group, versions=(0, 5)),
    route(ApiVersionsRequest, versions.api_versions, versions=(0, 4), refuse=versions.refuse_api_versions),
    route(ShareGroupHeartbeatRequest, share_groups.share_group_heartbeat, versions=(1, 1)),
    route(
        ShareGroupDescribeRequest,
        share_groups.share_group_describe,
        versions=(1, 1),
        refuse=share_groups.refuse_share_group_describe,
    ),
    route(ShareFetchRequest, share_fetch.share_fetch, versions=(1, 2)),
    route(ShareAcknowledgeRequest, share_fetch.share_acknowledge, versions=(1, 2)),
    route(InitializeShareGroupStateRequest, share_state.initialize_share_group_state, versions=(0, 0)),
    route(ReadShareGroupStateRequest, share_state.read_share_group_state, versions=(0, 0)),
    route(WriteShareGroupStateRequest, share_state.write_share_group_state, versions=(0, 1)),
    route(DeleteShareGroupStateRequest, share_state.delete_share_group_state, versions=(0, 0)),
    route(ReadShareGroupStateSummaryRequest, share_state.read_share_group_state_summary, versions=(0, 1)),
)

ROUTES: dict[int, Route] = {line.api_key: line for line in _TABLE}
