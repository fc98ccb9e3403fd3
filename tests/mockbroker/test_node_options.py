"""Clusters whose nodes differ: other API versions as in a rolling upgrade, and other static properties."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kwire import Client
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from mockbroker import Cluster
from mockbroker.cli import main
from mockbroker.config.broker_config import ConfigError
from mockbroker.kafka_error import KafkaError


def _at(cluster: Cluster, node: int, **options: Any) -> Client:
    return Client(cluster.bootstrap_servers.split(",")[node], **options)


def _last_versions(cluster: Cluster) -> list[int]:
    """The last version of Produce at each node."""
    found = []
    for node in range(len(cluster.nodes())):
        with _at(cluster, node) as client:
            found.append(client.versions[0][1])
    return found


def _features(cluster: Cluster, node: int) -> tuple[dict[str, int], dict[str, int]]:
    """The highest supported levels and the finalized ones, as a node lists them."""
    with _at(cluster, node, negotiated=False) as client:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        response = client.send(request, 3 if node == 0 else 4)
    supported = {row.name: row.max_version for row in response.supported_features}
    return supported, {row.name: row.max_version_level for row in response.finalized_features}


def test_each_node_lists_and_serves_its_own_versions() -> None:
    versions: dict[int, str | dict[str, int]] = {0: "2.8", 1: {"Produce": 10}}
    with Cluster(nodes=3, versions=versions) as cluster:
        assert _last_versions(cluster) == [9, 10, 13]
        with _at(cluster, 0, negotiated=False) as old, pytest.raises(ConnectionError):
            old.send(DescribeClusterRequest(), 2)
        with _at(cluster, 1, negotiated=False) as new:
            assert new.send(DescribeClusterRequest(), 2).error_code == 0
        closed = [exchange.closed for exchange in cluster.exchanges("DescribeCluster") if exchange.closed]

    assert closed == ["DescribeCluster version 2 is not served, only 0 to 0"]


def test_the_versions_of_nodes_are_a_property_too() -> None:
    properties = {0: {"mockbroker.versions": "2.8"}, 1: {"mockbroker.versions": "Produce=8,Fetch=11"}}
    with Cluster(nodes=3, node_properties=properties) as cluster:
        assert _last_versions(cluster) == [9, 8, 13]
    with Cluster(nodes=2, properties={"mockbroker.versions": "Produce=8"}) as cluster:
        assert _last_versions(cluster) == [8, 8]


def test_a_cluster_has_the_features_that_all_nodes_support() -> None:
    with Cluster(nodes=2, versions={0: "4.0"}) as cluster:
        (of_old, finalized), (of_new, same) = _features(cluster, 0), _features(cluster, 1)
        with _at(cluster, 1) as client:
            update = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("share.version", 1, upgrade_type=1)])
            refused = client.send(update).error_code

    assert "share.version" not in of_old
    assert of_new["share.version"] == 2
    assert finalized == same
    assert "share.version" not in finalized
    assert refused != 0


def test_a_rolling_upgrade_changes_one_node_after_the_other() -> None:
    with Cluster(nodes=2, versions={0: "2.8", 1: "2.8"}) as cluster:
        seen = [_last_versions(cluster)]
        for node in (0, 1):
            cluster.stop_node(node)
            cluster.set_node_versions(node, None)
            cluster.start_node(node)
            seen.append(_last_versions(cluster))
        asyncio.run(cluster.aio.set_node_versions(0, {"Produce": 7}))
        seen.append(_last_versions(cluster))
        with pytest.raises(KafkaError, match="there is no node 7"):
            cluster.set_node_versions(7, None)
        with pytest.raises(ConfigError, match=r"'9\.9' is no release"):
            cluster.set_node_versions(0, "9.9")

    assert seen == [[9, 9], [13, 9], [13, 13], [7, 13]]


def test_open_connections_keep_their_versions() -> None:
    with Cluster(versions={0: {"Produce": 8}}) as cluster, _at(cluster, 0) as client:
        cluster.set_node_versions(0, None)
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        listed = {row.api_key: row.max_version for row in client.send(request).api_keys}

        assert _last_versions(cluster) == [13]
        assert client.versions[0] == (0, 8) or client.versions[0][1] == 8
        assert listed[0] == 13


def _described(cluster: Cluster, node: int, name: str) -> tuple[str | None, int]:
    resource = DescribeConfigsResource(4, str(node), (name,))
    with _at(cluster, node) as client:
        [entry] = client.send(DescribeConfigsRequest(resources=[resource])).results[0].configs
    return entry.value, entry.config_source


def test_a_node_has_properties_of_its_own_and_describes_them() -> None:
    properties = {1: {"fetch.max.bytes": 2048, "num.network.threads": 9, "broker.rack": "b"}}
    with Cluster(nodes=2, properties={"broker.rack": "a"}, node_properties=properties) as cluster:
        described = [_described(cluster, node, "fetch.max.bytes") for node in (0, 1)]
        threads = [_described(cluster, node, "num.network.threads") for node in (0, 1)]
        racks = [node.rack for node in cluster.nodes()]

    assert described == [("57671680", 5), ("2048", 4)]
    assert threads == [("3", 5), ("9", 4)]
    assert racks == ["a", "b"]


def test_a_property_of_a_node_acts_at_that_node_only() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
    with Cluster(nodes=2, node_properties={0: {"auto.create.topics.enable": False}}) as cluster:
        created = []
        for node in (0, 1):
            with _at(cluster, node) as client:
                client.send(request, 12)
            created.append([name for name in cluster.topics() if name == "new"])

    assert created == [[], ["new"]]


def _described_topic(cluster: Cluster, node: int) -> tuple[str | None, int]:
    resource = DescribeConfigsResource(2, "orders", ("retention.ms",))
    with _at(cluster, node) as client:
        [entry] = client.send(DescribeConfigsRequest(resources=[resource])).results[0].configs
    return entry.value, entry.config_source


def test_defaults_of_topics_and_groups_are_those_of_the_node() -> None:
    properties = {1: {"log.retention.ms": 90_000, "group.consumer.session.timeout.ms": 50_000}}
    with Cluster(nodes=2, topics=["orders"], node_properties=properties) as cluster:
        topics = [_described_topic(cluster, node) for node in (0, 1)]
        nodes = cluster.run(lambda server: dict(server.core.state.nodes))
        sessions = [nodes[node].group_config("g")["consumer.session.timeout.ms"] for node in (0, 1)]

    assert topics == [("604800000", 5), ("90000", 4)]
    assert sessions == [45_000, 50_000]


def test_a_node_keeps_its_properties_over_a_restart_and_a_reset() -> None:
    with Cluster(nodes=2, node_properties={1: {"fetch.max.bytes": 2048}}, versions={1: "2.8"}) as cluster:
        cluster.stop_node(1)
        cluster.start_node(1)
        restarted = _last_versions(cluster)
        cluster.reset()

        assert restarted == _last_versions(cluster) == [13, 9]
        assert _described(cluster, 1, "fetch.max.bytes") == ("2048", 4)


def test_a_node_that_the_cluster_lacks_is_refused() -> None:
    for options in ({"versions": {2: "2.8"}}, {"node_properties": {2: {"fetch.max.bytes": 2048}}}):
        with pytest.raises(ConfigError, match="node 2: the nodes are 0, 1"):
            Cluster(nodes=2, **options).start()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--node-set", "1:broker.rack=b"], "node 1: the nodes are 0"),
        (["--node-set", "broker.rack=b"], "node-set: 'broker.rack=b' has not the form NODE:KEY=VALUE"),
        (["--node-set", "0:mockbroker.versions=1.0"], "'1.0' is no release"),
        (["--node-set", "0:num.partitions=3"], "num.partitions is the same for all nodes here"),
    ],
)
def test_the_command_refuses_wrong_properties_of_nodes(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--port", "0", *arguments]) == 2
    assert message in capsys.readouterr().err
