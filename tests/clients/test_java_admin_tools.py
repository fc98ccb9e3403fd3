"""Kafka's administrative tools, one after another: quotas, client metrics, directories, features, quorum, brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from mockbroker import Cluster
from tests.clients.java_tools import ToolShell

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

CONFIGS = "kafka.admin.ConfigCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
QUOTAS = "producer_byte_rate=1024,request_percentage=50"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, properties={"log.dirs": "/data/a"}, controller_port=0) as running:
        running.stop_node(2)
        running.create_topic("orders", 2)
        producer = Producer({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})
        producer.produce("orders", b"v", partition=0)
        assert producer.flush(30) == 0
        yield running


@pytest.fixture(scope="module")
def printed(cluster: Cluster, tools: ToolShell) -> dict[str, list[str]]:
    """The output lines of each command, by the name of the step."""
    server = ("--bootstrap-server", cluster.bootstrap_servers)
    controller = ("--bootstrap-controller", cluster.bootstrap_controllers)
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    alice = ("--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-default")
    metrics = ("--entity-type", "client-metrics", "--entity-name", "METRICS")
    steps = {
        "set quotas": (CONFIGS, *server, "--alter", *alice, "--add-config", QUOTAS),
        "quotas": (CONFIGS, *server, "--describe", *alice),
        "delete a quota": (CONFIGS, *server, "--alter", *alice, "--delete-config", "producer_byte_rate"),
        "remaining quotas": (CONFIGS, *server, "--describe", *alice),
        "subscribe": (CONFIGS, *server, "--alter", *metrics, "--add-config", "metrics=org.apache.,interval.ms=1000"),
        "subscriptions": (CONFIGS, *server, "--describe", "--entity-type", "client-metrics"),
        "loggers": (CONFIGS, *server, "--describe", "--entity-type", "broker-loggers", "--entity-name", "0"),
        "directories": (LOG_DIRS, *server, "--describe", "--topic-list", "orders", "--broker-list", "0,1"),
        "features": (FEATURES, *server, "describe"),
        "downgrade": (FEATURES, *server, "downgrade", "--feature", "share.version=0"),
        "downgraded": (FEATURES, *server, "describe"),
        "upgrade": (FEATURES, *server, "upgrade", "--feature", "share.version=1"),
        "quorum": (QUORUM, *server, "describe", "--status"),
        "replication": (QUORUM, *server, "describe", "--replication"),
        "quorum of the controller": (QUORUM, *controller, "describe", "--status"),
        "features of the controller": (FEATURES, *controller, "describe"),
        "endpoints of the controller": (CLUSTER, "list-endpoints", *controller),
        "configure by the controller": (CONFIGS, *controller, "--alter", *broker, "--add-config", "num.io.threads=9"),
        "configured": (CONFIGS, *server, "--describe", *broker),
        "unregister": (CLUSTER, "unregister", *server, "--id", "2"),
    }
    return tools.run_steps(steps)


def test_the_configs_tool_sets_and_deletes_quotas(printed: dict[str, list[str]]) -> None:
    (line,) = printed["quotas"]
    entity, _, values = line.partition(" are ")

    assert printed["set quotas"] == printed["delete a quota"] == ["Completed updating config for user alice."]
    assert entity == "Quota configs for user-principal 'alice', the default client-id"
    assert sorted(values.split(", ")) == ["producer_byte_rate=1024.0", "request_percentage=50.0"]
    assert printed["remaining quotas"][0].endswith(" are request_percentage=50.0")


def test_the_configs_tool_creates_and_lists_subscriptions_to_client_metrics(printed: dict[str, list[str]]) -> None:
    synonyms = "sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:"

    assert printed["subscribe"] == ["Completed updating config for client-metric METRICS."]
    assert printed["subscriptions"] == [
        "Dynamic configs for client-metric METRICS are:",
        f"interval.ms=1000 {synonyms}interval.ms=1000}}",
        f"metrics=org.apache. {synonyms}metrics=org.apache.}}",
    ]


def test_the_configs_tool_shows_the_levels_of_loggers(printed: dict[str, list[str]]) -> None:
    assert printed["loggers"][0] == "Dynamic configs for broker-logger 0 are:"
    assert "root=INFO sensitive=false synonyms={}" in printed["loggers"]


def test_the_log_dirs_tool_finds_every_log_with_its_size(printed: dict[str, list[str]]) -> None:
    brokers = json.loads(printed["directories"][-1])["brokers"]
    directories = [directory for row in brokers for directory in row["logDirs"]]
    sizes = {log["partition"]: log["size"] for directory in directories for log in directory["partitions"]}

    assert [directory["logDir"] for directory in directories] == ["/data/a", "/data/a"]
    assert sizes.keys() == {"orders-0", "orders-1"}
    assert sizes["orders-0"] > 0 == sizes["orders-1"]


def test_the_features_tool_downgrades_and_upgrades_a_feature(printed: dict[str, list[str]]) -> None:
    def level(step: str, feature: str) -> tuple[str, int]:
        words = next(line for line in printed[step] if line.startswith(f"Feature: {feature} ")).split()
        return words[-3], int(words[-1])

    before, epoch_before = level("features", "share.version")
    after, epoch_after = level("downgraded", "share.version")

    assert printed["downgrade"] == ["share.version was downgraded to 0."]
    assert printed["upgrade"] == ["share.version was upgraded to 1."]
    assert (before, after) == ("2", "0")
    assert epoch_after > epoch_before
    assert level("features", "metadata.version")[0] == "33"  # The tools of 4.3 have no name for this level.


def test_the_quorum_tool_finds_one_leading_voter_and_observers(printed: dict[str, list[str]]) -> None:
    status = dict(line.split(": ", 1) for line in printed["quorum"])

    assert status["LeaderId"] == "0"
    assert status["MaxFollowerLag"] == "0"
    assert [row["id"] for row in json.loads(status["CurrentVoters"])] == [0]
    assert [row["id"] for row in json.loads(status["CurrentObservers"])] == [1]
    assert [line.split()[-1] for line in printed["replication"][1:]] == ["Leader", "Observer"]


def test_the_cluster_tool_unregisters_a_broker(printed: dict[str, list[str]]) -> None:
    assert printed["unregister"] == ["Broker 2 is no longer registered."]


def test_the_tools_reach_the_controller_by_its_own_listener(cluster: Cluster, printed: dict[str, list[str]]) -> None:
    status = dict(line.split(": ", 1) for line in printed["quorum of the controller"])
    host, port = cluster.bootstrap_controllers.split(":")

    assert status["LeaderId"] == "0"
    assert f"CONTROLLER://{host}:{port}" in status["CurrentVoters"]
    assert any(line.startswith("Feature: share.version ") for line in printed["features of the controller"])
    assert printed["endpoints of the controller"][1].split() == ["0", host, port, "null", "controller"]
    assert printed["configure by the controller"] == ["Completed updating config for broker 1."]
    assert any(line.startswith("num.io.threads=9 ") for line in printed["configured"])
