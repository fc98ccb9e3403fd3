"""The subjects of sequences: APIs that belong together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Theme(NamedTuple):
    """APIs that belong together, with how often each is chosen, and how many of ten sequences are about them."""

    weights: Mapping[str, int]
    frequency: int


THEMES: Mapping[str, Theme] = {
    "topics": Theme(
        {
            "CreateTopics": 4,
            "DeleteTopics": 2,
            "Metadata": 5,
            "CreatePartitions": 3,
            "DescribeTopicPartitions": 4,
            "DescribeCluster": 1,
            "AlterPartitionReassignments": 2,
            "ListPartitionReassignments": 2,
            "ElectLeaders": 2,
            "DescribeLogDirs": 1,
            "AlterReplicaLogDirs": 1,
            "ListOffsets": 1,
            "ApiVersions": 1,
        },
        10,
    ),
    "logs": Theme(
        {
            "Produce": 8,
            "Fetch": 10,
            "ListOffsets": 5,
            "DeleteRecords": 3,
            "OffsetForLeaderEpoch": 3,
            "DescribeProducers": 2,
            "DescribeLogDirs": 1,
            "DeleteTopics": 1,
            "CreatePartitions": 1,
        },
        16,
    ),
    "classic": Theme(
        {
            "JoinGroup": 10,
            "SyncGroup": 7,
            "Heartbeat": 5,
            "LeaveGroup": 3,
            "OffsetCommit": 5,
            "OffsetFetch": 5,
            "DescribeGroups": 3,
            "ListGroups": 1,
            "DeleteGroups": 1,
            "OffsetDelete": 2,
            "FindCoordinator": 1,
            "ConsumerGroupHeartbeat": 1,
            "ConsumerGroupDescribe": 1,
            "TxnOffsetCommit": 1,
        },
        14,
    ),
    "consumer": Theme(
        {
            "ConsumerGroupHeartbeat": 14,
            "ConsumerGroupDescribe": 4,
            "OffsetCommit": 5,
            "OffsetFetch": 5,
            "OffsetDelete": 2,
            "DeleteGroups": 1,
            "DescribeGroups": 1,
            "ListGroups": 1,
            "DeleteTopics": 1,
            "JoinGroup": 1,
            "LeaveGroup": 1,
            "Heartbeat": 1,
            "CreatePartitions": 1,
            "TxnOffsetCommit": 1,
        },
        14,
    ),
    "share": Theme(
        {
            "ShareGroupHeartbeat": 5,
            "ShareFetch": 10,
            "ShareAcknowledge": 7,
            "ShareGroupDescribe": 2,
            "DescribeShareGroupOffsets": 3,
            "AlterShareGroupOffsets": 2,
            "DeleteShareGroupOffsets": 2,
            "Produce": 3,
            "DeleteRecords": 1,
            "DeleteGroups": 1,
            "ListGroups": 1,
            "InitializeShareGroupState": 1,
            "ReadShareGroupState": 1,
            "WriteShareGroupState": 1,
            "DeleteShareGroupState": 1,
        },
        14,
    ),
    "share-state": Theme(
        {
            "InitializeShareGroupState": 4,
            "ReadShareGroupState": 4,
            "WriteShareGroupState": 6,
            "DeleteShareGroupState": 2,
            "ReadShareGroupStateSummary": 4,
        },
        6,
    ),
    "streams": Theme(
        {
            "StreamsGroupHeartbeat": 12,
            "StreamsGroupDescribe": 4,
            "StreamsGroupTopologyDescriptionUpdate": 2,
            "OffsetCommit": 3,
            "OffsetFetch": 3,
            "DeleteGroups": 1,
            "ListGroups": 1,
            "DescribeGroups": 1,
            "OffsetDelete": 1,
            "ConsumerGroupDescribe": 1,
        },
        8,
    ),
    "transactions": Theme(
        {
            "InitProducerId": 6,
            "AddPartitionsToTxn": 6,
            "AddOffsetsToTxn": 3,
            "TxnOffsetCommit": 4,
            "EndTxn": 6,
            "DescribeTransactions": 3,
            "ListTransactions": 2,
            "DescribeProducers": 2,
            "WriteTxnMarkers": 2,
            "ListOffsets": 2,
            "Fetch": 2,
            "OffsetFetch": 2,
            "FindCoordinator": 1,
        },
        12,
    ),
    "configs": Theme(
        {
            "DescribeConfigs": 6,
            "IncrementalAlterConfigs": 8,
            "AlterConfigs": 5,
            "ListConfigResources": 2,
            "CreateTopics": 2,
            "DescribeGroups": 1,
        },
        8,
    ),
    "admin": Theme(
        {
            "DescribeAcls": 3,
            "CreateAcls": 4,
            "DeleteAcls": 3,
            "DescribeClientQuotas": 3,
            "AlterClientQuotas": 4,
            "DescribeUserScramCredentials": 2,
            "AlterUserScramCredentials": 3,
            "DescribeQuorum": 1,
            "UpdateFeatures": 2,
            "UnregisterBroker": 1,
            "UnregisterController": 1,
            "AddRaftVoter": 1,
            "RemoveRaftVoter": 1,
            "ApiVersions": 1,
            "DescribeCluster": 1,
            "GetTelemetrySubscriptions": 2,
            "PushTelemetry": 2,
            "CreateDelegationToken": 1,
            "RenewDelegationToken": 1,
            "ExpireDelegationToken": 1,
            "DescribeDelegationToken": 1,
            "SaslHandshake": 1,
            "SaslAuthenticate": 1,
            "FindCoordinator": 1,
        },
        8,
    ),
}


def all_apis() -> list[str]:
    """Names of all APIs that sequences have requests of, sorted."""
    return sorted({api for theme in THEMES.values() for api in theme.weights})
