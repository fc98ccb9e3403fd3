"""Values of request fields, by the name and type of the field: usual ones, and ones that a broker has to refuse."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from mockbroker.config.keys import ConfigType, Scope, config_keys
from tools.oracle.fuzz.script_names import ZERO_UUID

#: Largest values of an int32 and an int64, and the length of a string that no broker takes for a name.
INT32_MAX, INT64_MAX, LONG_NAME = 2**31 - 1, 2**63 - 1, 300


class Pool(NamedTuple):
    """Usual values of a field, and unusual ones."""

    usual: tuple[Any, ...]
    unusual: tuple[Any, ...] = ()


_OFFSETS = Pool((0, 0, 1, 2, 3, 5), (-1, -2, 100, 1 << 40, INT64_MAX))
_LEADER_EPOCHS = Pool((-1, 0, 0), (1, 5, -2, INT32_MAX))
_FLAG = Pool((False, True))

#: By name of the field, or by API and name where a name means several things.
POOLS: Mapping[str, Pool] = {
    "acknowledgeTypes": Pool((1, 1, 2, 3, 4, 0), (-1, 5, 100)),
    "acks": Pool((-1, 1), (2, -2)),
    "allowDowngrade": _FLAG,
    "allowAutoTopicCreation": _FLAG,
    "allowReplicationFactorChange": _FLAG,
    "assignment": Pool(("", "AAEC", "AAEAAAAAAAAAAA==")),
    "authBytes": Pool(("AGFsaWNlAGFsaWNlLXNlY3JldA==",), ("", "AAAA")),
    "batchSize": Pool((1, 3, 500), (0, -1)),
    "brokerId": Pool((7, 99), (-1, INT32_MAX)),
    "brokerIds": Pool((0,), (1, -1)),
    "clientInstanceId": Pool(("${telemetry}", ZERO_UUID), ("${uuid:nowhere}",)),
    "clientSoftwareName": Pool(("fuzz", "a.b-c"), ("", "-bad", "bad name")),
    "clientSoftwareVersion": Pool(("1.0",), ("", " ", "-1")),
    # A new voter would end a real broker, so the cluster is always another one.
    "AddRaftVoter.clusterId": Pool(("wrong", "")),
    "RemoveRaftVoter.clusterId": Pool(("wrong", "")),
    "AddRaftVoter.name": Pool(("CONTROLLER", "PLAINTEXT"), ("",)),
    "AlterUserScramCredentials.name": Pool(("q-${run}", "w-${run}"), ("",)),
    "DescribeUserScramCredentials.name": Pool(("q-${run}", "w-${run}"), ("",)),
    "clusterId": Pool((None, "wrong"), ("",)),
    "committedLeaderEpoch": Pool((-1, 0), (5, -2)),
    "committedMetadata": Pool(("", "note", None), ("x" * 5000,)),
    "committedOffset": Pool((0, 1, 5, 100), (-1, -2, INT64_MAX)),
    "compressionType": Pool((0,), (1, 9, -1)),
    "configOperation": Pool((0, 0, 0, 1, 2, 3), (4, -1)),
    "coordinatorEpoch": Pool((0,), (-1, 1)),
    "controllerId": Pool((7, 99), (-1, INT32_MAX)),
    "count": Pool((3, 4, 2), (1, 0, -1)),
    "currentLeaderEpoch": _LEADER_EPOCHS,
    "deliveryCompleteCount": Pool((-1, 0, 2), (-2,)),
    "deliveryCount": Pool((1, 2), (0, -1)),
    "deliveryState": Pool((0, 2, 4), (1, 3, 9, -1)),
    "durationFilter": Pool((-1,), (0, -2, 1 << 40)),
    "electionType": Pool((0, 1), (2, -1)),
    "endpointType": Pool((1,), (2, 3, 0)),
    "endpointInformationEpoch": Pool((-1, 0, 1), (5, -2)),
    "AlterClientQuotas.entityName": Pool(("q-${run}", "w-${run}"), ("",)),
    "entityType": Pool(("user", "client-id"), ("ip", "", "other")),
    "expiryTimePeriodMs": Pool((1000, -1), (0, INT64_MAX)),
    "feature": Pool(("nosuch", "share.version", "metadata.version", "kraft.version", "transaction.version"), ("",)),
    "fetchOffset": _OFFSETS,
    "firstOffset": Pool((0, 1, 2, 3), (-1, 50, 1 << 40)),
    "groupInstanceId": Pool((None, None, None, "i1", "i2"), ("", "bad name!")),
    "instanceId": Pool((None, None, None, "i1", "i2"), ("",)),
    "hmac": Pool(("", "AAEC")),
    "host": Pool(("*", "127.0.0.1"), ("", "nowhere")),
    "hostFilter": Pool((None, "*", "127.0.0.1"), ("",)),
    "includeAuthorizedOperations": _FLAG,
    "includeClusterAuthorizedOperations": _FLAG,
    "includeFencedBrokers": _FLAG,
    "includeSynonyms": _FLAG,
    "includeTopicAuthorizedOperations": _FLAG,
    "includeDocumentation": Pool((False,)),
    "isRenewAck": Pool((False, False, False, True)),
    "isolationLevel": Pool((0, 1), (2, -1)),
    "iterations": Pool((4096, 8192), (0, 4095, 16385, -1)),
    "AlterClientQuotas.key": Pool(
        ("producer_byte_rate", "consumer_byte_rate", "request_percentage"), ("", "nosuch", "connection_creation_rate")
    ),
    "keyType": Pool((0, 1), (2, 3, -1)),
    "lastFetchedEpoch": Pool((-1, -1, 0), (5, -2)),
    "leaderEpoch": Pool((0, 0, -1), (1, 5, -2, INT32_MAX)),
    "logStartOffset": Pool((-1, 0), (5,)),
    "match": Pool(("q-${run}", "w-${run}"), (None, "")),
    "matchType": Pool((0,), (1, 2, 3, -1)),
    "maxBytes": Pool((50_000_000, 50_000_000, 1000), (1, 0, -1)),
    "maxLifetimeMs": Pool((60_000, -1), (0,)),
    "maxRecords": Pool((1, 2, 500, 500), (0, -1)),
    "maxVersionLevel": Pool((0, 1), (-1, 99)),
    "maxWaitMs": Pool((0, 0, 20, 40), (-1,)),
    "AlterUserScramCredentials.mechanism": Pool((1, 2), (0, 3, -1)),
    "SaslHandshake.mechanism": Pool(("PLAIN", "SCRAM-SHA-256"), ("", "nosuch")),
    "metadata": Pool(("", "AAAA", "AAAAAAAA/////w==", "AAEAAAABAAltaWdyYXRpbmf/////AAAAAA==")),
    "metrics": Pool(("", "YWJj")),
    "minBytes": Pool((0, 1, 1), (100_000, -1)),
    "numPartitions": Pool((1, 2, 3), (-1, 0, -2)),
    "DeleteRecords.offset": Pool((0, 1, 2, -1), (-2, 100, INT64_MAX)),
    "operation": Pool((2, 3, 4, 8), (0, 1, 10, 15, 99, -1)),
    "DescribeAcls.operation": Pool((1, 3, 4), (0, 2, 99, -1)),
    "DeleteAcls.operation": Pool((1, 3, 4), (0, 2, 99, -1)),
    "ownerPrincipalName": Pool((None, "alice-${run}"), ("",)),
    "ownerPrincipalType": Pool((None, "User"), ("", "Other")),
    "partitionMaxBytes": Pool((1_000_000, 1_000_000, 100), (1, 0, -1)),
    "path": Pool(("/nowhere",), ("", "relative")),
    "patternTypeFilter": Pool((1, 3, 4), (0, 2, 9, -1)),
    "permissionType": Pool((3, 2), (0, 1, 9)),
    "DescribeAcls.permissionType": Pool((1, 3), (0, 2, 9)),
    "DeleteAcls.permissionType": Pool((1, 3), (0, 2, 9)),
    "port": Pool((9092, 0, 65535)),
    "principal": Pool(("User:p-${run}", "User:r-${run}"), ("", "nouser", "Other:p-${run}")),
    "principalFilter": Pool(("User:p-${run}", "User:r-${run}", None), ("", "nouser")),
    "principalName": Pool(("alice-${run}",), ("",)),
    "principalType": Pool(("User",), ("", "Other")),
    "processId": Pool(("process-1", "process-2"), ("",)),
    "protocolType": Pool(("consumer",) * 6, ("", "connect")),
    "protocolName": Pool(("range",) * 6, ("", "roundrobin", "nosuch")),
    "JoinGroup.name": Pool(("range", "range", "roundrobin"), ("", "other")),
    "rackId": Pool((None, None, "rack-1"), ("",)),
    "Fetch.rackId": Pool(("", "rack-1")),
    "reason": Pool((None, "because"), ("", "x" * LONG_NAME)),
    "rebalanceTimeoutMs": Pool((1200, 1500)),
    "renewPeriodMs": Pool((60_000, -1), (0,)),
    "replicaId": Pool((-1,), (-2, 0, 5, -3)),
    "replicaEpoch": Pool((-1,), (0, 5)),
    "replicationFactor": Pool((1, 1, -1), (2, 0, -2)),
    "replicas": Pool((0,), (1, -1)),
    "requireStable": _FLAG,
    "resourcePatternType": Pool((3, 4), (0, 1, 2, 9)),
    "resourceTypeFilter": Pool((1, 2, 3), (0, 4, 5, 6, 99, -1)),
    "CreateAcls.resourceType": Pool((2, 3, 5, 7), (0, 1, 4, 99, -1)),
    "resourceTypes": Pool((2, 4, 8, 16, 32), (0, 1, 99, -1)),
    "responsePartitionLimit": Pool((2000, 1, 2), (0, -1)),
    "retentionTimeMs": Pool((-1,), (0, 1000)),
    "salt": Pool(("c2FsdDEyMzQ=",), ("",)),
    "saltedPassword": Pool(("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",), ("", "AAEC")),
    "serverAssignor": Pool((None, None, "uniform", "range"), ("", "nosuch")),
    "shareAcquireMode": Pool((0, 0, 1), (2, -1)),
    "shutdownApplication": Pool((False,) * 9, (True,)),
    "startOffset": Pool((0, 1, 2), (-1, -2, 100, INT64_MAX)),
    "stateEpoch": Pool((0, 1, 2), (-1, -2, 9)),
    "stateFilters": Pool(("Empty", "Ongoing", "CompleteCommit"), ("", "nosuch")),
    "statesFilter": Pool(("Stable", "Empty", "stable", "Dead", "PreparingRebalance"), ("", "nosuch")),
    "strict": _FLAG,
    "subscribedTopicRegex": Pool((None, None, None, "t-${run}", "[tu]-${run}"), ("", "(", "[", ".*-${run}")),
    "subscriptionId": Pool(("${subscription}",), (1, -1)),
    "subtopologyId": Pool(("0", "1"), ("", "nosuch")),
    "terminating": Pool((False, False, False, True)),
    "timeoutMs": Pool((20_000,), (-1,)),
    "timestamp": Pool((-1, -2, -3, 0, "${now-100000}", "${now+100000}"), (-4, -5, -6, -7, INT64_MAX)),
    "transactionTimeoutMs": Pool((60_000,), (0, -1, 900_001, INT32_MAX)),
    "transactionVersion": Pool((0, 1, 2), (3, -1)),
    "transactionalIdPattern": Pool((None, "x-${run}", ".*${run}"), ("", "[")),
    "typesFilter": Pool(("classic", "consumer", "share", "streams", "Consumer"), ("", "nosuch")),
    "upgradeType": Pool((1,), (0, 2, 3, 4, -1)),
    "validateOnly": Pool((False, False, True)),
    "UpdateFeatures.validateOnly": Pool((True,)),
    "AlterClientQuotas.value": Pool((1024.0, 50.0, 1e9), (0.0, -1.0, 0.5, 1e300)),
    "verifyOnly": Pool((False, False, True)),
    "voterId": Pool((7, 0), (-1,)),
    "voterDirectoryId": Pool(("${uuid:directory}", ZERO_UUID)),
}

#: Configuration values that a broker would act on at once, or that make it slow.
_UNSAFE_CONFIGS = frozenset(
    {
        "remote.storage.enable",
        "flush.messages",
        "flush.ms",
        "segment.ms",
        "segment.bytes",
        "retention.ms",
        "retention.bytes",
        "segment.jitter.ms",
        "file.delete.delay.ms",
        "errors.deadletterqueue.topic.name",
    }
)
#: Broker configurations that are equal on every broker, for DescribeConfigs.
BROKER_CONFIGS = (
    "log.retention.hours",
    "num.io.threads",
    "min.insync.replicas",
    "log.cleaner.threads",
    "compression.type",
    "nosuch",
    "",
)
RESOURCE_SCOPES = {2: Scope.TOPIC, 16: Scope.CLIENT_METRICS, 32: Scope.GROUP}


@cache
def config_names(scope: Scope) -> tuple[str, ...]:
    """Names of the configurations that a sequence may alter."""
    return tuple(name for name in config_keys(scope) if name not in _UNSAFE_CONFIGS)


@cache
def config_values(scope: Scope, name: str) -> Pool:
    """Values of a configuration: its default and others of its type, and invalid ones."""
    key = config_keys(scope).get(name)
    if key is None:
        return Pool(("1", None))
    if key.type is ConfigType.BOOLEAN:
        return Pool(("true", "false", "TRUE"), ("", "yes", None))
    if key.type in (ConfigType.INT, ConfigType.LONG, ConfigType.SHORT):
        return Pool(("1000", "10000", "100000"), ("-1", "0", "1", "", "abc", "1.5", str(INT64_MAX), None))
    if key.type is ConfigType.DOUBLE:
        return Pool(("0.5", "0.1"), ("2", "-1", "", "abc", None))
    words = _words_of(name)
    return Pool(words, ("", "nosuch", "a,b", None))


def _words_of(name: str) -> tuple[str, ...]:
    known = {
        "cleanup.policy": ("delete", "compact", "compact,delete", "delete,delete"),
        "compression.type": ("producer", "gzip", "lz4", "zstd", "uncompressed"),
        "message.timestamp.type": ("CreateTime", "LogAppendTime"),
        "share.auto.offset.reset": ("earliest", "latest", "by_duration:PT1H"),
        "share.isolation.level": ("read_committed", "read_uncommitted"),
        "leader.replication.throttled.replicas": ("*", "0:0"),
        "follower.replication.throttled.replicas": ("*", "0:0"),
        "metrics": ("org.apache.kafka", "a,b"),
        "match": ("client_id=x-${run}",),
    }
    return known.get(name, ("earliest", "range"))
