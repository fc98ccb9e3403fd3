"""AlterReplicaLogDirs (34) and DescribeLogDirs (35). The logs are in memory; the directories are only names."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kwire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, authorize_cluster
from mockbroker.kafka_error import KafkaError

#: The value of `cordoned.log.dirs` for every directory.
_ALL_DIRS = "*"


def alter_replica_log_dirs(request: AlterReplicaLogDirsRequest, ctx: Context) -> Outcome:
    """Move logs to other directories; for a partition that is listed twice the last path is used.

    Pinned by the conversation other-log-dirs-alter.
    """
    authorize_cluster(AclOperation.ALTER, ctx)
    paths = {
        (topic.name, index): target.path
        for target in request.dirs
        for topic in target.topics
        for index in topic.partitions
    }
    rows: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (topic, index), path in paths.items():
        row = rows.setdefault(topic, AlterReplicaLogDirTopicResult(topic, partitions=[]))
        row.partitions.append(AlterReplicaLogDirPartitionResult(index, _move_log(topic, index, path, ctx)))
    return Reply(AlterReplicaLogDirsResponse(results=list(rows.values())))


def refuse_alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, error: KafkaError
) -> AlterReplicaLogDirsResponse:
    """A response with the error in every row."""
    response = AlterReplicaLogDirsResponse(results=[])
    for topic in [topic for target in request.dirs for topic in target.topics]:
        rows = [AlterReplicaLogDirPartitionResult(index, error.code) for index in topic.partitions]
        response.results.append(AlterReplicaLogDirTopicResult(topic.name, rows))
    return response


def describe_log_dirs(request: DescribeLogDirsRequest, ctx: Context) -> Outcome:
    """Return the directories of logs and their sizes; partitions without a replica here are omitted.

    There are no lags, no future logs, and no disk sizes to report. Pinned by the conversation other-log-dirs-describe.
    """
    authorize_cluster(AclOperation.DESCRIBE, ctx)
    requested = None
    if request.topics is not None:
        requested = {(row.topic, index) for row in request.topics for index in row.partitions}
    cordoned = _cordoned_dirs(ctx)
    results = [
        DescribeLogDirsResult(log_dir=path, topics=_describe_topics(path, requested, ctx), is_cordoned=path in cordoned)
        for path in ctx.node.log_dirs.paths
    ]
    return Reply(DescribeLogDirsResponse(results=results))


def _describe_topics(path: str, requested: set[tuple[str, int]] | None, ctx: Context) -> list[DescribeLogDirsTopic]:
    rows = []
    for topic in ctx.cluster.metadata.topics():
        partition_rows = [
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=ctx.node.logs.find_log(topic.topic_id, partition.index, of_any_replica=True).size,
            )
            for partition in topic.partitions
            if ctx.node.node_id in partition.replicas
            and (requested is None or (topic.name, partition.index) in requested)
            and ctx.node.log_dirs.path_of((topic.topic_id, partition.index)) == path
        ]
        if partition_rows:
            rows.append(DescribeLogDirsTopic(topic.name, partition_rows))
    return rows


def _move_log(topic_name: str, partition_index: int, path: str, ctx: Context) -> ErrorCode:
    """Move a log and return the error of its row: 9 for a replica on another broker, 3 for an unknown partition."""
    log_dirs = ctx.node.log_dirs
    try:
        log_dirs.check_move(topic_name, partition_index, path, cordoned=_cordoned_dirs(ctx))
    except KafkaError as error:
        return error.code
    topic = ctx.cluster.metadata.topic(topic_name)
    partition = topic.partition(partition_index) if topic else None
    if topic is None or partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if ctx.node.node_id not in partition.replicas:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    log_dirs.move_log((topic.topic_id, partition_index), path)
    return ErrorCode.NONE


def _cordoned_dirs(ctx: Context) -> tuple[str, ...]:
    """The directories that accept no new logs (KIP-1066)."""
    value = ctx.cluster.configs.broker(ctx.node.node_id)["cordoned.log.dirs"]
    assert isinstance(value, list)
    return ctx.node.log_dirs.paths if _ALL_DIRS in value else tuple(value)
