"""Handlers, one module for each API family; ROUTES is the whole surface of the broker, in API-key order.

The version ranges are those of Kafka 4.3.0, which lists Produce from 0 and serves it from 3.
"""

from __future__ import annotations

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.read_share_group_state import ReadShareGroupStateRequest
from kwire.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.messages.share_fetch import ShareFetchRequest
from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.messages.write_share_group_state import WriteShareGroupStateRequest
from mockbroker.handlers import (
    classic_groups,
    configs,
    consumer_groups,
    coordinators,
    fetch,
    group_admin,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    producer_ids,
    share_fetch,
    share_groups,
    share_state,
    topic_partitions,
    topics,
    versions,
)
from mockbroker.routes import Route, route

_TABLE = (
    route(ProduceRequest, produce.produce, versions=(3, 13), listed=(0, 13), refuse=produce.refuse_produce),
    route(FetchRequest, fetch.fetch, versions=(4, 18)),
    route(ListOffsetsRequest, list_offsets.list_offsets, versions=(1, 11), refuse=list_offsets.refuse_list_offsets),
    route(MetadataRequest, metadata.metadata, versions=(0, 13), refuse=metadata.refuse_metadata),
    route(
        OffsetCommitRequest,
        offset_commit.offset_commit,
        versions=(2, 10),
        refuse=offset_commit.refuse_offset_commit,
    ),
    route(OffsetFetchRequest, offset_fetch.offset_fetch, versions=(1, 10)),
    route(FindCoordinatorRequest, coordinators.find_coordinator, versions=(0, 6)),
    route(JoinGroupRequest, classic_groups.join_group, versions=(0, 9)),
    route(HeartbeatRequest, classic_groups.heartbeat, versions=(0, 4)),
    route(LeaveGroupRequest, classic_groups.leave_group, versions=(0, 5)),
    route(SyncGroupRequest, classic_groups.sync_group, versions=(0, 5)),
    route(
        DescribeGroupsRequest,
        group_admin.describe_groups,
        versions=(0, 6),
        refuse=group_admin.refuse_describe_groups,
    ),
    route(ListGroupsRequest, group_admin.list_groups, versions=(0, 5)),
    route(ApiVersionsRequest, versions.api_versions, versions=(0, 4), refuse=versions.refuse_api_versions),
    route(CreateTopicsRequest, topics.create_topics, versions=(2, 7), refuse=topics.refuse_create_topics),
    route(DeleteTopicsRequest, topics.delete_topics, versions=(1, 6), refuse=topics.refuse_delete_topics),
    route(
        InitProducerIdRequest,
        producer_ids.init_producer_id,
        versions=(0, 5),
        refuse=producer_ids.refuse_init_producer_id,
    ),
    route(DescribeConfigsRequest, configs.describe_configs, versions=(1, 4), refuse=configs.refuse_describe_configs),
    route(DeleteGroupsRequest, group_admin.delete_groups, versions=(0, 2), refuse=group_admin.refuse_delete_groups),
    route(
        IncrementalAlterConfigsRequest,
        configs.incremental_alter_configs,
        versions=(0, 1),
        refuse=configs.refuse_incremental_alter_configs,
    ),
    route(DescribeClusterRequest, metadata.describe_cluster, versions=(0, 2)),
    route(ConsumerGroupHeartbeatRequest, consumer_groups.consumer_group_heartbeat, versions=(0, 1)),
    route(
        ConsumerGroupDescribeRequest,
        consumer_groups.consumer_group_describe,
        versions=(0, 1),
        refuse=consumer_groups.refuse_consumer_group_describe,
    ),
    route(
        DescribeTopicPartitionsRequest,
        topic_partitions.describe_topic_partitions,
        versions=(0, 0),
        refuse=topic_partitions.refuse_describe_topic_partitions,
    ),
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
