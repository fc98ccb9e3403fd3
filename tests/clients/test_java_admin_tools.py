"""Kafka's administrative tools, one after another: quotas, client metrics, directories, features, quorum, brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from mockbroker import Cluster
from tests.clients import java_tools

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

CONFIGS = "kafka.admin.ConfigCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, properties={"log.dirs": "/data/a"}) as running:
        running.stop_node(2)
        running.create_topic("orders", 2)
        producer = Producer({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})
        producer.produce("orders", b"v", partition=0)
        assert producer.flush(30) == 0
        yield running


@pytest.fixture(scope="module")
def told(cluster: Cluster) -> dict[str, list[str]]:
    """What each command printed, line by line, by the name of the step."""
    server = ("--bootstrap-server", cluster.bootstrap_servers)
    alice = ("--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-default")
    metrics = ("--entity-type", "client-metrics", "--entity-name", "METRICS")
    steps = {
        "give": (CONFIGS, *server, "--alter", *alice, "--add-config", "producer_byte_rate=1024,request_percentage=50"),
        "given": (CONFIGS, *server, "--describe", *alice),
        "take": (CONFIGS, *server, "--alter", *alice, "--delete-config", "producer_byte_rate"),
        "left": (CONFIGS, *server, "--describe", *alice),
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
        "unregister": (CLUSTER, "unregister", *server, "--id", "2"),
    }
    with java_tools.shell() as shell:
        return {name: _lines(shell.run(*command)) for name, command in steps.items()}


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_configs_tool_gives_and_takes_quotas(told: dict[str, list[str]]) -> None:
    (line,) = told["given"]
    whose, _, values = line.partition(" are ")

    assert told["give"] == told["take"] == ["Completed updating config for user alice."]
    assert whose == "Quota configs for user-principal 'alice', the default client-id"
    assert sorted(values.split(", ")) == ["producer_byte_rate=1024.0", "request_percentage=50.0"]
    assert told["left"][0].endswith(" are request_percentage=50.0")


def test_the_configs_tool_makes_and_finds_subscriptions_to_client_metrics(told: dict[str, list[str]]) -> None:
    synonyms = "sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:"

    assert told["subscribe"] == ["Completed updating config for client-metric METRICS."]
    assert told["subscriptions"] == [
        "Dynamic configs for client-metric METRICS are:",
        f"interval.ms=1000 {synonyms}interval.ms=1000}}",
        f"metrics=org.apache. {synonyms}metrics=org.apache.}}",
    ]


def test_the_configs_tool_shows_the_levels_of_loggers(told: dict[str, list[str]]) -> None:
    assert told["loggers"][0] == "Dynamic configs for broker-logger 0 are:"
    assert "root=INFO sensitive=false synonyms={}" in told["loggers"]


def test_the_log_dirs_tool_finds_every_log_with_its_size(told: dict[str, list[str]]) -> None:
    brokers = json.loads(told["directories"][-1])["brokers"]
    found = {log["partition"]: log["size"] for row in brokers for one in row["logDirs"] for log in one["partitions"]}

    assert [[one["logDir"] for one in row["logDirs"]] for row in brokers] == [["/data/a"], ["/data/a"]]
    assert found.keys() == {"orders-0", "orders-1"}
    assert found["orders-0"] > 0 == found["orders-1"]


def test_the_features_tool_takes_a_feature_down_and_up_again(told: dict[str, list[str]]) -> None:
    def level(step: str, feature: str) -> tuple[str, int]:
        words = next(line for line in told[step] if line.startswith(f"Feature: {feature} ")).split()
        return words[-3], int(words[-1])

    before, epoch_before = level("features", "share.version")
    after, epoch_after = level("downgraded", "share.version")

    assert told["downgrade"] == ["share.version was downgraded to 0."]
    assert told["upgrade"] == ["share.version was upgraded to 1."]
    assert (before, after) == ("1", "0")
    assert epoch_after > epoch_before
    assert level("features", "metadata.version")[0] == "4.3-IV0"


def test_the_quorum_tool_finds_one_voter_that_leads_and_the_others_following(told: dict[str, list[str]]) -> None:
    status = dict(line.split(": ", 1) for line in told["quorum"])

    assert status["LeaderId"] == "0"
    assert status["MaxFollowerLag"] == "0"
    assert [row["id"] for row in json.loads(status["CurrentVoters"])] == [0]
    assert [row["id"] for row in json.loads(status["CurrentObservers"])] == [1]
    assert [line.split()[-1] for line in told["replication"][1:]] == ["Leader", "Observer"]


def test_the_cluster_tool_strikes_a_broker_off(told: dict[str, list[str]]) -> None:
    assert told["unregister"] == ["Broker 2 is no longer registered."]
