"""The broker's own configuration: Kafka's names, types, defaults and ranges."""

from __future__ import annotations

import pytest

from mockbroker.config import BrokerConfig, ConfigError
from mockbroker.config_keys import ConfigType, Scope, duration_ms, keys, to_text
from mockbroker.features import finalize
from mockbroker.properties import parse_properties


def test_every_default_of_kafka_is_typed_and_passes_its_own_check() -> None:
    for scope, count in ((Scope.BROKER, 360), (Scope.TOPIC, 34), (Scope.GROUP, 17)):
        assert len(keys(scope)) == count
        for key in keys(scope).values():
            text = to_text(key.default)
            if text is not None:
                assert key.parse(text) == key.default


def test_values_have_the_types_of_kafka() -> None:
    config = BrokerConfig({"group.share.max.size": " 7 ", "auto.create.topics.enable": "FALSE", "log.dirs": "a , b,a"})

    assert config["group.share.max.size"] == 7
    assert config["auto.create.topics.enable"] is False
    assert config["log.dirs"] == ["a", "b"]
    assert config["message.max.bytes"] == 1048588
    assert config["log.cleaner.min.cleanable.ratio"] == 0.5
    assert config["log.retention.ms"] is None
    assert config["controller.quorum.voters"] == []
    assert (
        config["principal.builder.class"]
        == "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    )


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


def test_a_wrong_secret_is_not_shown() -> None:
    key = keys(Scope.BROKER)["ssl.key.password"]

    assert key.type is ConfigType.PASSWORD
    assert key.sensitive


@pytest.mark.parametrize(
    "given",
    [
        {"group.share.record.lock.duration.ms": "14999"},
        {"group.share.session.timeout.ms": "60001"},
        {"group.share.max.share.sessions": "199"},
        {"group.share.min.heartbeat.interval.ms": "5001"},
        {"group.share.min.session.timeout.ms": "1", "group.share.session.timeout.ms": "5000"},
        {"group.share.assignors": "simple,other"},
        {"group.min.session.timeout.ms": "1800001"},
    ],
)
def test_contradicting_configurations_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        BrokerConfig(given)


@pytest.mark.parametrize(
    "name",
    [
        "offsets.topic.segment.bytes",
        "share.coordinator.state.topic.segment.bytes",
        "transaction.state.log.segment.bytes",
    ],
)
def test_segments_of_internal_topics_that_no_topic_may_have_are_refused_at_once(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: a topic's segment.bytes is 1048576 at least, 1048575 was given"):
        BrokerConfig({name: "1048575"})

    assert BrokerConfig({name: "1048576"})[name] == 1 << 20


def test_names_without_meaning_and_names_unknown_are_accepted_and_told_apart() -> None:
    config = BrokerConfig({"num.io.threads": "3", "my.plugin.setting": "x", "num.partitions": "3"})

    assert config.ignored == ["num.io.threads"]
    assert config.unknown == ["my.plugin.setting"]
    assert config["num.partitions"] == 3


def test_a_setting_wins_over_the_properties_file() -> None:
    config = BrokerConfig.from_properties("num.partitions=2\nnode.id=4\n", ["num.partitions=5"])

    assert (config["num.partitions"], config["node.id"]) == (5, 4)
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        BrokerConfig.from_properties("", ["num.partitions"])


def test_properties_are_read_as_java_reads_them() -> None:
    text = "# a comment\n! another\n\n  a = 1\nb:2\nc 3\r\nd=x\\\n    y\\\\\ne\\ f\\=g=h\\u0041\\t\\q\nempty\na=4\n"

    assert parse_properties(text) == {
        "a": "4", "b": "2", "c": "3", "d": "xy\\", "e f=g": "hA\tq", "empty": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e7, "1.0E7"),
        (1.25e-5, "1.25E-5"),
        (100.0, "100.0"),
    ],
)
def test_doubles_are_printed_as_java_prints_them(value: float, text: str) -> None:
    assert to_text(value) == text


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT0.5S", 500),
        ("P1DT2H3M4S", 93_784_000),
        ("pt1h", 3_600_000),
        ("P", None),
        ("PT", None),
        ("PT-1S", None),
        ("1h", None),
    ],
)
def test_durations_are_those_of_iso_8601(text: str, milliseconds: int | None) -> None:
    assert duration_ms(text) == milliseconds


def test_features_are_those_that_a_formatted_cluster_finalizes() -> None:
    assert finalize()["share.version"] == 1
    assert "share.version" not in finalize(["share.version=0"])
    assert finalize()["metadata.version"] == 30
    for wrong in ("share.version=2", "nosuch=1", "share.version", "share.version=x"):
        with pytest.raises(ConfigError, match="not"):
            finalize([wrong])


def test_other_defaults_hold_for_what_was_not_set() -> None:
    defaults = {"group.share.partition.max.record.locks": "200", "group.share.max.size": "50"}

    config = BrokerConfig({"group.share.max.size": "70"}).with_defaults(defaults)

    assert config["group.share.partition.max.record.locks"] == 200
    assert config["group.share.max.size"] == 70
    assert config.given == {"group.share.max.size": "70"}
    assert BrokerConfig()["group.share.partition.max.record.locks"] == 2000
