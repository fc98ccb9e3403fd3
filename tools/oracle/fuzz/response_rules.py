"""What a script does with the response to an API: values to save, parts to leave out, time to wait afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Any

#: Parts of responses that differ from broker to broker.
MASKS: Mapping[str, tuple[str, ...]] = {
    "ApiVersions": ("/finalizedFeaturesEpoch",),
    "DescribeLogDirs": (
        "/results/*/logDir",
        "/results/*/totalBytes",
        "/results/*/usableBytes",
    ),
    "DescribeProducers": ("/topics/*/partitions/*/activeProducers/*/lastTimestamp",),
    "DescribeQuorum": (
        "/topics/*/partitions/*/highWatermark",
        "/topics/*/partitions/*/leaderEpoch",
        "/topics/*/partitions/*/currentVoters/*/logEndOffset",
        "/topics/*/partitions/*/currentVoters/*/lastFetchTimestamp",
        "/topics/*/partitions/*/currentVoters/*/lastCaughtUpTimestamp",
        "/topics/*/partitions/*/currentVoters/*/replicaDirectoryId",
    ),
    "Fetch": ("/sessionId",),
    "GetTelemetrySubscriptions": ("/subscriptionId", "/clientInstanceId"),
}

#: Arrays of responses that list what other sequences have made: rows with names of this one are kept.
KEPT_ROWS: Mapping[str, tuple[str, ...]] = {
    "DescribeAcls": ("/resources",),
    "DescribeClientQuotas": ("/entries",),
    "DescribeLogDirs": ("/results/*/topics",),
    "DescribeUserScramCredentials": ("/results",),
    "ListConfigResources": ("/configResources",),
    "ListGroups": ("/groups",),
    "ListTransactions": ("/transactionStates",),
}

#: What later requests refer to. MEMBER and PRODUCER stand for the variable that the request is about.
SAVES: Mapping[str, Mapping[str, str]] = {
    "ConsumerGroupHeartbeat": {"MEMBER": "/memberId", "MEMBER_e": "/memberEpoch"},
    "EndTxn": {"pid_PRODUCER": "/producerId", "pid_PRODUCER_e": "/producerEpoch"},
    "Fetch": {"fetch_session": "/sessionId"},
    "GetTelemetrySubscriptions": {"telemetry": "/clientInstanceId", "subscription": "/subscriptionId"},
    "InitProducerId": {"pid_PRODUCER": "/producerId", "pid_PRODUCER_e": "/producerEpoch"},
    "JoinGroup": {"MEMBER": "/memberId", "MEMBER_e": "/generationId"},
    "ShareGroupHeartbeat": {"MEMBER_e": "/memberEpoch"},
    "StreamsGroupHeartbeat": {"MEMBER_e": "/memberEpoch"},
}

#: Codes that pass by themselves, for which a request is sent again.
TRANSIENT: Mapping[str, tuple[int, ...]] = dict.fromkeys(
    ("AddOffsetsToTxn", "AddPartitionsToTxn", "EndTxn", "InitProducerId", "TxnOffsetCommit"), (51,)
)

#: Milliseconds after requests whose effect a real broker applies later, on another thread.
METADATA_WAIT_MS, COORDINATOR_WAIT_MS = 60, 30
#: Milliseconds after a batch, so that the next one has a later timestamp on both brokers.
BATCH_WAIT_MS = 2
_METADATA_APIS = frozenset(
    {
        *("AlterClientQuotas", "AlterConfigs", "AlterPartitionReassignments", "AlterUserScramCredentials"),
        *("CreateAcls", "CreatePartitions", "CreateTopics", "DeleteAcls", "DeleteTopics", "ElectLeaders"),
        *("IncrementalAlterConfigs", "UpdateFeatures"),
    }
)
_COORDINATOR_APIS = frozenset(
    {
        *("AlterShareGroupOffsets", "DeleteGroups", "DeleteShareGroupOffsets", "DeleteShareGroupState", "EndTxn"),
        *("InitProducerId", "InitializeShareGroupState", "ShareFetch", "ShareGroupHeartbeat"),
        *("StreamsGroupHeartbeat", "WriteShareGroupState", "WriteTxnMarkers"),
    }
)


def response_words(api: str, version: int, body: dict[str, Json], member: str, producer: str) -> dict[str, Json]:
    """The words of a script's step for the response to this request."""
    words: dict[str, Json] = {}
    saves = {
        name.replace("MEMBER", member).replace("PRODUCER", producer): pointer
        for name, pointer in SAVES.get(api, {}).items()
    }
    if saves:
        words["save"] = saves
    if api in MASKS:
        words["mask"] = list(MASKS[api])
    if api in KEPT_ROWS:
        words["keep"] = dict.fromkeys(KEPT_ROWS[api], "${run}")
    if api == "Metadata" and (body["topics"] is None or (version == 0 and not body["topics"])):
        words["keep"] = {"/topics": "${run}"}
    if api in TRANSIENT:
        words["transient"] = list(TRANSIENT[api])
    return words


def wait_after_ms(api: str, body: dict[str, Json]) -> int:
    """How long to wait until a real broker has applied a request."""
    if api in _METADATA_APIS:
        return METADATA_WAIT_MS
    if api == "Produce":
        return BATCH_WAIT_MS
    is_regex = api == "ConsumerGroupHeartbeat" and body.get("subscribedTopicRegex")
    return COORDINATOR_WAIT_MS if api in _COORDINATOR_APIS or is_regex else 0
