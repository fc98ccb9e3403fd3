"""AlterReplicaLogDirs (34) and DescribeLogDirs (35): the directories of a broker whose logs are in memory."""

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
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, must

#: In `cordoned.log.dirs`: every directory.
_ALL = "*"


def alter_replica_log_dirs(request: AlterReplicaLogDirsRequest, ctx: Context) -> Outcome:
    """Move logs to other directories; a partition that is named twice goes where it is named last.

    Pinned by the conversation other-log-dirs-alter.
    """
    must(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
    wanted = {
        (topic.name, index): target.path
        for target in request.dirs
        for topic in target.topics
        for index in topic.partitions
    }
    codes = {place: _move(*place, path, ctx) for place, path in wanted.items()}
    return Reply(AlterReplicaLogDirsResponse(results=_by_topic(codes)))


def refuse_alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, error: KafkaError
) -> AlterReplicaLogDirsResponse:
    """A response that carries an error in every row."""
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic.name, [AlterReplicaLogDirPartitionResult(index, error.code) for index in topic.partitions]
            )
            for target in request.dirs
            for topic in target.topics
        ]
    )


def describe_log_dirs(request: DescribeLogDirsRequest, ctx: Context) -> Outcome:
    """Tell where logs are and how large they are; what is not here is left out.

    There are neither lags nor future logs, and no disk whose size could be told. Pinned by the conversation
    other-log-dirs-describe.
    """
    must(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
    asked = None
    if request.topics is not None:
        asked = {(row.topic, index) for row in request.topics for index in row.partitions}
    cordoned = _cordoned(ctx)
    results = [
        DescribeLogDirsResult(log_dir=path, topics=_topics_in(path, asked, ctx), is_cordoned=path in cordoned)
        for path in ctx.node.log_dirs.paths
    ]
    return Reply(DescribeLogDirsResponse(results=results))


def _topics_in(path: str, asked: set[tuple[str, int]] | None, ctx: Context) -> list[DescribeLogDirsTopic]:
    rows = []
    for topic in ctx.cluster.metadata.topics():
        found = [
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=ctx.node.logs.get(topic.topic_id, partition.index, of_any_replica=True).size,
            )
            for partition in topic.partitions
            if ctx.node.node_id in partition.replicas
            and (asked is None or (topic.name, partition.index) in asked)
            and ctx.node.log_dirs.path_of((topic.topic_id, partition.index)) == path
        ]
        if found:
            rows.append(DescribeLogDirsTopic(topic.name, found))
    return rows


def _move(topic_name: str, partition_index: int, path: str, ctx: Context) -> ErrorCode:
    """The error of a row. A partition that is elsewhere is 9, one that is nowhere 3."""
    log_dirs = ctx.node.log_dirs
    try:
        log_dirs.check(topic_name, partition_index, path, cordoned=_cordoned(ctx))
    except KafkaError as error:
        return error.code
    topic = ctx.cluster.metadata.topic(topic_name)
    partition = topic.partition(partition_index) if topic else None
    if topic is None or partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if ctx.node.node_id not in partition.replicas:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    log_dirs.move((topic.topic_id, partition_index), path)
    return ErrorCode.NONE


def _cordoned(ctx: Context) -> tuple[str, ...]:
    """The directories that take no new logs (KIP-1066)."""
    value = ctx.cluster.configs.broker(ctx.node.node_id)["cordoned.log.dirs"]
    assert isinstance(value, list)
    return ctx.node.log_dirs.paths if _ALL in value else tuple(value)


def _by_topic(codes: dict[tuple[str, int], ErrorCode]) -> list[AlterReplicaLogDirTopicResult]:
    rows: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (topic_name, index), code in codes.items():
        row = rows.setdefault(topic_name, AlterReplicaLogDirTopicResult(topic_name, partitions=[]))
        row.partitions.append(AlterReplicaLogDirPartitionResult(index, code))
    return list(rows.values())
