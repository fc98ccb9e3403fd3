"""The broker's own configuration: Kafka's names, types, defaults and ranges."""

from __future__ import annotations

import pytest

from mockbroker.config.broker_config import BrokerConfig, ConfigError


def test_values_have_the_types_of_kafka() -> None:
    config = BrokerConfig({"group.share.max.size": " 7 ", "auto.create.topics.enable": "FALSE", "log.dirs": "a , b,a"})

    assert config["group.share.max.size"] == 7
    assert config["auto.create.topics.enable"] is False
    assert config["log.dirs"] == ["a", "b"]
    assert config["message.max.bytes"] == 1048588
    assert config["log.cleaner.min.cleanable.ratio"] == 0.5
    assert config["log.retention.ms"] is None
    assert config["controller.quorum.voters"] == []
    builder = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    assert config["principal.builder.class"] == builder


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("num.partitions", "0", "[1,...]"),
        ("num.partitions", "x", "number of type INT"),
        ("num.partitions", "2147483648", "number of type INT"),
        ("num.partitions", "1_0", "number of type INT"),
        ("group.share.delivery.count.limit", "11", "[2,...,10]"),
        ("compression.gzip.level", "0", "[1,...,9] or -1"),
        ("compression.type", "brotli", "[uncompressed, zstd, lz4, snappy, gzip, producer]"),
        ("log.cleanup.policy", "delete,squash", "[compact, delete]"),
        ("auto.create.topics.enable", "yes", "neither true nor false"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "[0,...,1]"),
    ],
)
def test_a_wrong_value_names_the_key_the_value_and_the_range(name: str, text: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({name: text})

    for part in (name, text, allowed):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"group.share.record.lock.duration.ms": "14999"},
        {"group.share.session.timeout.ms": "60001"},
        {"group.share.max.share.sessions": "199"},
        {"group.share.min.heartbeat.interval.ms": "5001"},
        {"group.share.min.session.timeout.ms": "1", "group.share.session.timeout.ms": "5000"},
        {"group.share.assignors": "simple,other"},
        {"group.coordinator.rebalance.protocols": "consumer"},
        {"group.min.session.timeout.ms": "1800001"},
        {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097152"},
    ],
)
def test_contradicting_configurations_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        BrokerConfig(given)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("group.streams.task.offset.interval.ms", "14999"),
        ("group.streams.num.warmup.replicas", "21"),
        ("group.streams.assignors", "com.example.Assignor"),
    ],
)
def test_configurations_of_streams_groups_of_4_4_are_checked_in_4_4(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=name):
        BrokerConfig({name: text}, release="4.4")

    assert BrokerConfig({name: text}, release="4.3").unknown == [name]


@pytest.mark.parametrize("topic", ["offsets.topic", "share.coordinator.state.topic", "transaction.state.log"])
def test_segments_of_internal_topics_that_no_topic_may_have_are_refused_at_once(topic: str) -> None:
    name = f"{topic}.segment.bytes"
    with pytest.raises(ConfigError, match=f"{name}: a topic's segment.bytes must be at least 1048576, not 1048575"):
        BrokerConfig({name: "1048575"})

    assert BrokerConfig({name: "1048576"})[name] == 1 << 20


def test_names_without_effect_and_unknown_names_are_accepted_and_distinguished() -> None:
    config = BrokerConfig({"num.io.threads": "3", "my.plugin.setting": "x", "num.partitions": "3"})

    assert config.ignored == ["num.io.threads"]
    assert config.unknown == ["my.plugin.setting"]
    assert config["num.partitions"] == 3


def test_a_setting_wins_over_the_properties_file() -> None:
    config = BrokerConfig.from_properties("num.partitions=2\nnode.id=4\n", ["num.partitions=5"])

    assert (config["num.partitions"], config["node.id"]) == (5, 4)
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        BrokerConfig.from_properties("", ["num.partitions"])


def test_other_defaults_hold_for_what_was_not_set() -> None:
    defaults = {"group.share.partition.max.record.locks": "200", "group.share.max.size": "50"}

    config = BrokerConfig({"group.share.max.size": "70"}).with_defaults(defaults)

    assert config["group.share.partition.max.record.locks"] == 200
    assert config["group.share.max.size"] == 70
    assert config.given == {"group.share.max.size": "70"}
    assert BrokerConfig()["group.share.partition.max.record.locks"] == 2000
