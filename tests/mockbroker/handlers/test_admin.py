"""Administration on several nodes, and what a recorded broker of one node could not show."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.unregister_broker import UnregisterBrokerRequest
from kwire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.mockbroker.broker import Broker

REPLICATED = {"default.replication.factor": "2"}


def logs_by_dir(broker: Broker, *, node: int = 0) -> dict[str, list[tuple[str, int]]]:
    response = broker.ask(DescribeLogDirsRequest(topics=None), 5, connection=f"n{node}", node=node)
    return {
        row.log_dir: [(topic.name, log.partition_index) for topic in row.topics for log in topic.partitions]
        for row in response.results
    }


def move(broker: Broker, path: str, *, node: int = 0, partition: int = 0) -> int:
    target = AlterReplicaLogDir(path, [AlterReplicaLogDirTopic("t", (partition,))])
    response = broker.ask(AlterReplicaLogDirsRequest([target]), 2, connection=f"n{node}", node=node)
    code: int = response.results[0].partitions[0].error_code
    return code


def unregister(broker: Broker, node_id: int) -> int:
    code: int = broker.ask(UnregisterBrokerRequest(node_id), 0).error_code
    return code


def broker_ids(broker: Broker) -> list[int]:
    return [row.broker_id for row in broker.ask(DescribeClusterRequest(), 1).brokers]


def test_a_log_moves_to_another_directory_of_the_broker_and_is_there_after_a_restart() -> None:
    broker = Broker(nodes=2, topics={"t": 1}, config={**REPLICATED, "log.dirs": "/a,/b"})

    assert move(broker, "/b", node=1) == ErrorCode.NONE
    assert logs_by_dir(broker) == {"/a": [("t", 0)], "/b": []}
    assert logs_by_dir(broker, node=1) == {"/a": [], "/b": [("t", 0)]}
    broker.stop_node(1)
    broker.start_node(1)
    broker.forget("n1")
    assert logs_by_dir(broker, node=1) == {"/a": [], "/b": [("t", 0)]}


def test_a_broker_tells_and_moves_only_what_it_has_a_copy_of() -> None:
    broker = Broker(nodes=2, topics={"t": 2}, config={"log.dirs": "/a"})
    here = [index for _, index in logs_by_dir(broker)["/a"]]
    there = [index for _, index in logs_by_dir(broker, node=1)["/a"]]

    assert sorted(here + there) == [0, 1]
    assert move(broker, "/a", partition=here[0]) == ErrorCode.NONE
    assert move(broker, "/a", partition=there[0]) == ErrorCode.REPLICA_NOT_AVAILABLE


def test_nothing_moves_to_a_directory_that_has_been_cordoned() -> None:
    broker = Broker(topics={"t": 1}, config={"log.dirs": "/a,/b"})
    cordon = AlterConfigsResource(4, "0", [AlterableConfig("cordoned.log.dirs", 0, "/b")])
    broker.ask(IncrementalAlterConfigsRequest([cordon]), 1)
    rows = broker.ask(DescribeLogDirsRequest(topics=None), 5).results

    assert {row.log_dir: row.is_cordoned for row in rows} == {"/a": False, "/b": True}
    assert move(broker, "/b") == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_an_unregistered_broker_leads_nothing_and_gets_nothing_until_it_starts_again() -> None:
    broker = Broker(nodes=2, topics={"t": 1}, config=REPLICATED)

    assert unregister(broker, 1) == ErrorCode.NONE
    assert broker_ids(broker) == [0]
    assert unregister(broker, 1) == ErrorCode.BROKER_ID_NOT_REGISTERED
    refused = broker.ask(CreateTopicsRequest([CreatableTopic("u", 1, 2)]), 7).topics[0]
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    partition = broker.core.state.metadata.topic("t").partitions[0]  # type: ignore[union-attr]
    assert (partition.leader, partition.isr) == (0, (0,))
    broker.stop_node(1)
    broker.start_node(1)
    assert broker_ids(broker) == [0, 1]
    assert set(partition.isr) == {0, 1}


def test_a_broker_that_is_down_can_be_unregistered_and_registers_when_it_starts() -> None:
    broker = Broker(nodes=2)
    broker.kill_node(1)

    assert unregister(broker, 1) == ErrorCode.NONE
    assert broker_ids(broker) == [0]
    broker.advance(10_000)
    broker.start_node(1)
    assert broker_ids(broker) == [0, 1]


def test_brokers_beside_the_first_follow_the_quorum_while_they_run() -> None:
    broker = Broker(nodes=3)
    metadata = DescribeQuorumRequestTopicData("__cluster_metadata", [DescribeQuorumRequestPartitionData(0)])

    def observers() -> list[int]:
        row = broker.ask(DescribeQuorumRequest([metadata]), 2).topics[0].partitions[0]
        assert (row.leader_id, [voter.replica_id for voter in row.current_voters]) == (0, [0])
        return [one.replica_id for one in row.observers]

    assert observers() == [1, 2]
    broker.stop_node(1)
    assert observers() == [2]


def test_a_new_feature_level_comes_with_a_new_epoch() -> None:
    broker = Broker()

    def told() -> tuple[int, dict[str, int]]:
        response = broker.ask(ApiVersionsRequest("x", "1"), 4)
        levels = {row.name: row.max_version_level for row in response.finalized_features}
        return response.finalized_features_epoch, levels

    epoch, levels = told()
    broker.ask(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("share.version", 0, upgrade_type=2)]), 2)
    epoch_after, levels_after = told()

    assert levels_after == {name: level for name, level in levels.items() if name != "share.version"}
    assert epoch_after > epoch


def test_brokers_that_are_down_are_told_as_fenced_if_asked_for_until_they_are_struck_off() -> None:
    broker = Broker(nodes=2)

    def told(*, fenced: bool) -> dict[int, bool]:
        request = DescribeClusterRequest(include_fenced_brokers=fenced)
        return {row.broker_id: row.is_fenced for row in broker.ask(request, 2).brokers}

    broker.stop_node(1)
    assert told(fenced=False) == {0: False}
    assert told(fenced=True) == {0: False, 1: True}
    unregister(broker, 1)
    assert told(fenced=True) == {0: False}
    broker.start_node(1)
    assert told(fenced=True) == {0: False, 1: False}
