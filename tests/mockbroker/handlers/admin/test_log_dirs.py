"""AlterReplicaLogDirs and DescribeLogDirs on several nodes."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.brokers.broker import Broker

REPLICATED = {"default.replication.factor": "2"}


def logs_by_dir(broker: Broker, *, node: int = 0) -> dict[str, list[tuple[str, int]]]:
    response = broker.call(DescribeLogDirsRequest(topics=None), 5, connection=f"n{node}", node=node)
    return {
        row.log_dir: [(topic.name, log.partition_index) for topic in row.topics for log in topic.partitions]
        for row in response.results
    }


def move(broker: Broker, path: str, *, node: int = 0, partition: int = 0) -> int:
    target = AlterReplicaLogDir(path, [AlterReplicaLogDirTopic("t", (partition,))])
    response = broker.call(AlterReplicaLogDirsRequest([target]), 2, connection=f"n{node}", node=node)
    code: int = response.results[0].partitions[0].error_code
    return code


def test_a_log_moves_to_another_directory_of_the_broker_and_is_there_after_a_restart() -> None:
    broker = Broker(nodes=2, topics={"t": 1}, config={**REPLICATED, "log.dirs": "/a,/b"})

    assert move(broker, "/b", node=1) == ErrorCode.NONE
    assert logs_by_dir(broker) == {"/a": [("t", 0)], "/b": []}
    assert logs_by_dir(broker, node=1) == {"/a": [], "/b": [("t", 0)]}
    broker.stop_node(1)
    broker.start_node(1)
    broker.forget_connection("n1")
    assert logs_by_dir(broker, node=1) == {"/a": [], "/b": [("t", 0)]}


def test_a_broker_describes_and_moves_only_its_own_replicas() -> None:
    broker = Broker(nodes=2, topics={"t": 2}, config={"log.dirs": "/a"})
    here = [index for _, index in logs_by_dir(broker)["/a"]]
    there = [index for _, index in logs_by_dir(broker, node=1)["/a"]]

    assert sorted(here + there) == [0, 1]
    assert move(broker, "/a", partition=here[0]) == ErrorCode.NONE
    assert move(broker, "/a", partition=there[0]) == ErrorCode.REPLICA_NOT_AVAILABLE


def test_nothing_moves_to_a_directory_that_has_been_cordoned() -> None:
    broker = Broker(topics={"t": 1}, config={"log.dirs": "/a,/b"})
    cordon = AlterConfigsResource(4, "0", [AlterableConfig("cordoned.log.dirs", 0, "/b")])
    broker.call(IncrementalAlterConfigsRequest([cordon]), 1)
    rows = broker.call(DescribeLogDirsRequest(topics=None), 5).results

    assert {row.log_dir: row.is_cordoned for row in rows} == {"/a": False, "/b": True}
    assert move(broker, "/b") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
