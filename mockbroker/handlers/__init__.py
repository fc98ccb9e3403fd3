"""Handlers, one module for each API family; ROUTES is the whole surface of the broker, in API-key order.

The version ranges are those of Kafka 4.4.0, which lists Produce from 0 and serves it from 3. `select_routes` gives the
surface of another release.
"""

from __future__ import annotations

from mockbroker.engine.routes import Route, route
from mockbroker.state.release import ApiRules

_TABLE = (
    route(0, "Produce", "records.produce.produce", versions=(3, 13), listed=(0, 13)),
    route(1, "Fetch", "records.fetch.fetch", versions=(4, 18)),
    route(2, "ListOffsets", "records.list_offsets.list_offsets", versions=(1, 11)),
    route(3, "Metadata", "topics.metadata.metadata", versions=(0, 13)),
    route(8, "OffsetCommit", "offsets.offset_commit.offset_commit", versions=(2, 10)),
    route(9, "OffsetFetch", "offsets.offset_fetch.offset_fetch", versions=(1, 10)),
    route(10, "FindCoordinator", "groups.find_coordinator.find_coordinator", versions=(0, 6)),
    route(11, "JoinGroup", "groups.classic_groups.join_group", versions=(0, 9)),
    route(12, "Heartbeat", "groups.classic_groups.heartbeat", versions=(0, 4)),
    route(13, "LeaveGroup", "groups.classic_groups.leave_group", versions=(0, 5)),
    route(14, "SyncGroup", "groups.classic_groups.sync_group", versions=(0, 5)),
    route(15, "DescribeGroups", "groups.group_admin.describe_groups", versions=(0, 6)),
    route(16, "ListGroups", "groups.group_admin.list_groups", versions=(0, 5)),
    route(17, "SaslHandshake", "security.sasl.sasl_handshake", versions=(0, 1)),
    route(18, "ApiVersions", "admin.api_versions.api_versions", versions=(0, 5)),
    route(19, "CreateTopics", "topics.topics.create_topics", versions=(2, 7)),
    route(20, "DeleteTopics", "topics.topics.delete_topics", versions=(1, 6)),
    route(21, "DeleteRecords", "records.log_admin.delete_records", versions=(0, 2)),
    route(22, "InitProducerId", "transactions.init_producer_id.init_producer_id", versions=(0, 5), unstable=6),
    route(23, "OffsetForLeaderEpoch", "records.log_admin.offset_for_leader_epoch", versions=(2, 4)),
    route(24, "AddPartitionsToTxn", "transactions.transactions.add_partitions_to_txn", versions=(0, 5)),
    route(25, "AddOffsetsToTxn", "transactions.transactions.add_offsets_to_txn", versions=(0, 4)),
    route(26, "EndTxn", "transactions.transactions.end_txn", versions=(0, 5)),
    route(27, "WriteTxnMarkers", "transactions.transaction_admin.write_txn_markers", versions=(1, 2)),
    route(28, "TxnOffsetCommit", "offsets.txn_offset_commit.txn_offset_commit", versions=(0, 6)),
    route(29, "DescribeAcls", "security.acls.describe_acls", versions=(1, 3)),
    route(30, "CreateAcls", "security.acls.create_acls", versions=(1, 3)),
    route(31, "DeleteAcls", "security.acls.delete_acls", versions=(1, 3)),
    route(32, "DescribeConfigs", "configs.configs.describe_configs", versions=(1, 4)),
    route(33, "AlterConfigs", "configs.configs.alter_configs", versions=(0, 2)),
    route(34, "AlterReplicaLogDirs", "admin.log_dirs.alter_replica_log_dirs", versions=(1, 2)),
    route(35, "DescribeLogDirs", "admin.log_dirs.describe_log_dirs", versions=(1, 5)),
    route(36, "SaslAuthenticate", "security.sasl.sasl_authenticate", versions=(0, 2)),
    route(37, "CreatePartitions", "topics.create_partitions.create_partitions", versions=(0, 3)),
    route(38, "CreateDelegationToken", "security.delegation_tokens.create_delegation_token", versions=(1, 3)),
    route(39, "RenewDelegationToken", "security.delegation_tokens.renew_delegation_token", versions=(1, 2)),
    route(40, "ExpireDelegationToken", "security.delegation_tokens.expire_delegation_token", versions=(1, 2)),
    route(41, "DescribeDelegationToken", "security.delegation_tokens.describe_delegation_token", versions=(1, 3)),
    route(42, "DeleteGroups", "groups.group_admin.delete_groups", versions=(0, 3)),
    route(43, "ElectLeaders", "topics.elect_leaders.elect_leaders", versions=(0, 2)),
    route(44, "IncrementalAlterConfigs", "configs.configs.incremental_alter_configs", versions=(0, 1)),
    route(45, "AlterPartitionReassignments", "topics.reassignments.alter_partition_reassignments", versions=(0, 1)),
    route(46, "ListPartitionReassignments", "topics.reassignments.list_partition_reassignments", versions=(0, 0)),
    route(47, "OffsetDelete", "offsets.offset_delete.offset_delete", versions=(0, 0)),
    route(48, "DescribeClientQuotas", "configs.client_quotas.describe_client_quotas", versions=(0, 1)),
    route(49, "AlterClientQuotas", "configs.client_quotas.alter_client_quotas", versions=(0, 1)),
    route(50, "DescribeUserScramCredentials", "security.scram.describe_user_scram_credentials", versions=(0, 0)),
    route(51, "AlterUserScramCredentials", "security.scram.alter_user_scram_credentials", versions=(0, 0)),
    route(55, "DescribeQuorum", "admin.quorum.describe_quorum", versions=(0, 2)),
    route(57, "UpdateFeatures", "admin.features.update_features", versions=(0, 2)),
    route(60, "DescribeCluster", "topics.describe_cluster.describe_cluster", versions=(0, 2)),
    route(61, "DescribeProducers", "records.log_admin.describe_producers", versions=(0, 0)),
    route(64, "UnregisterBroker", "admin.unregister_broker.unregister_broker", versions=(0, 0)),
    route(65, "DescribeTransactions", "transactions.transaction_admin.describe_transactions", versions=(0, 0)),
    route(66, "ListTransactions", "transactions.transaction_admin.list_transactions", versions=(0, 2)),
    route(68, "ConsumerGroupHeartbeat", "groups.consumer_groups.consumer_group_heartbeat", versions=(0, 1)),
    route(69, "ConsumerGroupDescribe", "groups.consumer_groups.consumer_group_describe", versions=(0, 1)),
    route(71, "GetTelemetrySubscriptions", "admin.telemetry.get_telemetry_subscriptions", versions=(0, 0)),
    route(72, "PushTelemetry", "admin.telemetry.push_telemetry", versions=(0, 0)),
    route(74, "ListConfigResources", "configs.config_resources.list_config_resources", versions=(0, 1)),
    route(75, "DescribeTopicPartitions", "topics.describe_topic_partitions.describe_topic_partitions", versions=(0, 0)),
    route(76, "ShareGroupHeartbeat", "share.share_groups.share_group_heartbeat", versions=(1, 1)),
    route(77, "ShareGroupDescribe", "share.share_groups.share_group_describe", versions=(1, 1)),
    route(78, "ShareFetch", "share.share_fetch.share_fetch", versions=(1, 2)),
    route(79, "ShareAcknowledge", "share.share_fetch.share_acknowledge", versions=(1, 2)),
    route(80, "AddRaftVoter", "admin.quorum.add_raft_voter", versions=(0, 1)),
    route(81, "RemoveRaftVoter", "admin.quorum.remove_raft_voter", versions=(0, 0)),
    route(
        83, "InitializeShareGroupState", "share_coordinator.share_state.initialize_share_group_state", versions=(0, 0)
    ),
    route(84, "ReadShareGroupState", "share_coordinator.share_state.read_share_group_state", versions=(0, 0)),
    route(85, "WriteShareGroupState", "share_coordinator.share_state.write_share_group_state", versions=(0, 1)),
    route(86, "DeleteShareGroupState", "share_coordinator.share_state.delete_share_group_state", versions=(0, 0)),
    route(
        87,
        "ReadShareGroupStateSummary",
        "share_coordinator.share_state.read_share_group_state_summary",
        versions=(0, 1),
    ),
    route(88, "StreamsGroupHeartbeat", "streams.streams_groups.streams_group_heartbeat", versions=(0, 1)),
    route(89, "StreamsGroupDescribe", "streams.streams_describe.streams_group_describe", versions=(0, 1)),
    route(
        90, "DescribeShareGroupOffsets", "share.describe_share_offsets.describe_share_group_offsets", versions=(0, 1)
    ),
    route(91, "AlterShareGroupOffsets", "share.alter_share_offsets.alter_share_group_offsets", versions=(0, 0)),
    route(92, "DeleteShareGroupOffsets", "share.alter_share_offsets.delete_share_group_offsets", versions=(0, 0)),
    route(
        93,
        "StreamsGroupTopologyDescriptionUpdate",
        "streams.topology_descriptions.update_topology_description",
        versions=(0, 0),
    ),
    route(94, "UnregisterController", "admin.unregister_controller.unregister_controller", versions=(0, 0)),
)

ROUTES: dict[int, Route] = {line.api_key: line for line in _TABLE}


def select_routes(apis: ApiRules) -> dict[int, Route]:
    """The routes of a release, each with the versions that the release serves."""
    return {
        key: line.limit(apis.last_versions[key]) if key in apis.last_versions else line
        for key, line in ROUTES.items()
        if key not in apis.absent
    }
