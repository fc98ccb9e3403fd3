"""Handlers, one module for each API family; ROUTES is the whole surface of the broker, in API-key order.

The version ranges are those of Kafka 4.3.0, which lists Produce from 0 and serves it from 3.
"""

from __future__ import annotations

from mockbroker.routes import Route, route

_TABLE = (
    route(0, "Produce", "produce.produce", versions=(3, 13), listed=(0, 13)),
    route(1, "Fetch", "fetch.fetch", versions=(4, 18)),
    route(2, "ListOffsets", "list_offsets.list_offsets", versions=(1, 11)),
    route(3, "Metadata", "metadata.metadata", versions=(0, 13)),
    route(8, "OffsetCommit", "offset_commit.offset_commit", versions=(2, 10)),
    route(9, "OffsetFetch", "offset_fetch.offset_fetch", versions=(1, 10)),
    route(10, "FindCoordinator", "coordinators.find_coordinator", versions=(0, 6)),
    route(11, "JoinGroup", "classic_groups.join_group", versions=(0, 9)),
    route(12, "Heartbeat", "classic_groups.heartbeat", versions=(0, 4)),
    route(13, "LeaveGroup", "classic_groups.leave_group", versions=(0, 5)),
    route(14, "SyncGroup", "classic_groups.sync_group", versions=(0, 5)),
    route(15, "DescribeGroups", "group_admin.describe_groups", versions=(0, 6)),
    route(16, "ListGroups", "group_admin.list_groups", versions=(0, 5)),
    route(18, "ApiVersions", "versions.api_versions", versions=(0, 4)),
    route(19, "CreateTopics", "topics.create_topics", versions=(2, 7)),
    route(20, "DeleteTopics", "topics.delete_topics", versions=(1, 6)),
    route(21, "DeleteRecords", "log_admin.delete_records", versions=(0, 2)),
    route(22, "InitProducerId", "producer_ids.init_producer_id", versions=(0, 5)),
    route(23, "OffsetForLeaderEpoch", "log_admin.offset_for_leader_epoch", versions=(2, 4)),
    route(24, "AddPartitionsToTxn", "transactions.add_partitions_to_txn", versions=(0, 5)),
    route(25, "AddOffsetsToTxn", "transactions.add_offsets_to_txn", versions=(0, 4)),
    route(26, "EndTxn", "transactions.end_txn", versions=(0, 5)),
    route(27, "WriteTxnMarkers", "transaction_admin.write_txn_markers", versions=(1, 2)),
    route(28, "TxnOffsetCommit", "txn_offset_commit.txn_offset_commit", versions=(0, 5)),
    route(29, "DescribeAcls", "acls.describe_acls", versions=(1, 3)),
    route(30, "CreateAcls", "acls.create_acls", versions=(1, 3)),
    route(31, "DeleteAcls", "acls.delete_acls", versions=(1, 3)),
    route(32, "DescribeConfigs", "configs.describe_configs", versions=(1, 4)),
    route(37, "CreatePartitions", "partitions.create_partitions", versions=(0, 3)),
    route(42, "DeleteGroups", "group_admin.delete_groups", versions=(0, 2)),
    route(43, "ElectLeaders", "elections.elect_leaders", versions=(0, 2)),
    route(44, "IncrementalAlterConfigs", "configs.incremental_alter_configs", versions=(0, 1)),
    route(45, "AlterPartitionReassignments", "reassignments.alter_partition_reassignments", versions=(0, 1)),
    route(46, "ListPartitionReassignments", "reassignments.list_partition_reassignments", versions=(0, 0)),
    route(47, "OffsetDelete", "offset_delete.offset_delete", versions=(0, 0)),
    route(60, "DescribeCluster", "metadata.describe_cluster", versions=(0, 2)),
    route(61, "DescribeProducers", "log_admin.describe_producers", versions=(0, 0)),
    route(65, "DescribeTransactions", "transaction_admin.describe_transactions", versions=(0, 0)),
    route(66, "ListTransactions", "transaction_admin.list_transactions", versions=(0, 2)),
    route(68, "ConsumerGroupHeartbeat", "consumer_groups.consumer_group_heartbeat", versions=(0, 1)),
    route(69, "ConsumerGroupDescribe", "consumer_groups.consumer_group_describe", versions=(0, 1)),
    route(75, "DescribeTopicPartitions", "topic_partitions.describe_topic_partitions", versions=(0, 0)),
    route(76, "ShareGroupHeartbeat", "share_groups.share_group_heartbeat", versions=(1, 1)),
    route(77, "ShareGroupDescribe", "share_groups.share_group_describe", versions=(1, 1)),
    route(78, "ShareFetch", "share_fetch.share_fetch", versions=(1, 2)),
    route(79, "ShareAcknowledge", "share_fetch.share_acknowledge", versions=(1, 2)),
    route(83, "InitializeShareGroupState", "share_state.initialize_share_group_state", versions=(0, 0)),
    route(84, "ReadShareGroupState", "share_state.read_share_group_state", versions=(0, 0)),
    route(85, "WriteShareGroupState", "share_state.write_share_group_state", versions=(0, 1)),
    route(86, "DeleteShareGroupState", "share_state.delete_share_group_state", versions=(0, 0)),
    route(87, "ReadShareGroupStateSummary", "share_state.read_share_group_state_summary", versions=(0, 1)),
    route(90, "DescribeShareGroupOffsets", "share_offsets_describe.describe_share_group_offsets", versions=(0, 1)),
    route(91, "AlterShareGroupOffsets", "share_offsets_change.alter_share_group_offsets", versions=(0, 0)),
    route(92, "DeleteShareGroupOffsets", "share_offsets_change.delete_share_group_offsets", versions=(0, 0)),
)

ROUTES: dict[int, Route] = {line.api_key: line for line in _TABLE}
