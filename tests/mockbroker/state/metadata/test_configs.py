"""Dynamic configuration: what is let through, what is in force, and what is shown."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.state.metadata.config_changes import ConfigChange, ConfigOperation, apply_changes
from mockbroker.state.metadata.config_entries import Synonym, creation_entries, describe_entries
from mockbroker.state.metadata.configs import ALL_BROKERS, Configs, ConfigSource, Resource, ResourceKind
from tests.support.raises_code import code_of

TOPIC = Resource(ResourceKind.TOPIC, "t")
GROUP = Resource(ResourceKind.GROUP, "g")
BROKER = Resource(ResourceKind.BROKER, "0")
SET = ConfigOperation.SET


def make_configs(**given: str) -> Configs:
    return Configs(BrokerConfig({name.replace("_", "."): text for name, text in given.items()}))


def alter(configs: Configs, resource: Resource, name: str, value: str | None, how: ConfigOperation = SET) -> None:
    configs.set_overrides(resource, apply_changes(configs, resource, [ConfigChange(name, how, value)]))


def check_error(configs: Configs, resource: Resource, name: str, value: str, how: ConfigOperation = SET) -> ErrorCode:
    return code_of(lambda: alter(configs, resource, name, value, how))


def test_a_topic_has_its_own_value_else_the_brokers_else_kafkas() -> None:
    configs = make_configs(message_max_bytes="5000")
    topic = configs.topic("t")

    assert topic["max.message.bytes"] == 5000
    assert topic["cleanup.policy"] == ["delete"]
    alter(configs, TOPIC, "max.message.bytes", "77")
    assert topic["max.message.bytes"] == 77
    alter(configs, TOPIC, "max.message.bytes", None, ConfigOperation.DELETE)
    alter(configs, ALL_BROKERS, "message.max.bytes", "99")
    assert topic["max.message.bytes"] == 99


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({}, "retention.ms", 604_800_000),
        ({"log_retention_hours": "2"}, "retention.ms", 7_200_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "1"}, "retention.ms", 60_000),
        ({"log_retention_minutes": "1", "log_retention_ms": "5"}, "retention.ms", 5),
        ({}, "segment.ms", 604_800_000),
        ({}, "flush.ms", 9_223_372_036_854_775_807),
    ],
)
def test_the_finest_unit_of_the_broker_wins(given: dict[str, str], name: str, value: int) -> None:
    assert make_configs(**given).topic("t")[name] == value


def test_a_group_has_the_brokers_values_until_it_has_its_own() -> None:
    configs = make_configs(group_share_record_lock_duration_ms="20000")
    group = configs.group("g")

    assert group["share.record.lock.duration.ms"] == 20_000
    assert group["share.auto.offset.reset"] == "latest"
    alter(configs, GROUP, "share.record.lock.duration.ms", "15000")
    assert group["share.record.lock.duration.ms"] == 15_000
    assert configs.group("other")["share.record.lock.duration.ms"] == 20_000


@pytest.mark.parametrize(
    ("name", "valid", "bad"),
    [
        ("share.session.timeout.ms", ["45000", "60000"], ["44999", "60001", "x"]),
        ("share.heartbeat.interval.ms", ["15000"], ["4999", "15001"]),
        ("share.record.lock.duration.ms", ["15000", "60000"], ["14999", "60001", "999"]),
        ("share.delivery.count.limit", ["2", "10"], ["1", "11"]),
        ("share.partition.max.record.locks", ["100", "4000"], ["99", "4001"]),
        ("share.assignment.interval.ms", ["0", "15000"], ["-1", "15001"]),
        (
            "share.auto.offset.reset",
            ["earliest", "by_duration:PT1H"],
            ["none", "EARLIEST", "by_duration:-PT1H", "by_duration:"],
        ),
        ("share.isolation.level", ["read_committed"], ["serializable"]),
        ("share.renew.acknowledge.enable", ["false"], ["no"]),
    ],
)
def test_group_values_stay_within_the_brokers_bounds(name: str, valid: list[str], bad: list[str]) -> None:
    """share-semantics 8.4; seen on a real broker in the conversation share-config-bounds."""
    configs = make_configs()

    for value in valid:
        alter(configs, GROUP, name, value)
    for value in bad:
        assert check_error(configs, GROUP, name, value) is ErrorCode.INVALID_CONFIG


def test_a_groups_session_outlasts_its_heartbeat_interval_also_over_two_changes() -> None:
    """The conversation share-config-cross-check."""
    configs = make_configs(group_share_min_session_timeout_ms="1000", group_share_min_heartbeat_interval_ms="200")

    assert check_error(configs, GROUP, "share.session.timeout.ms", "5000") is ErrorCode.INVALID_CONFIG
    alter(configs, GROUP, "share.session.timeout.ms", "5001")
    assert check_error(configs, GROUP, "share.heartbeat.interval.ms", "5001") is ErrorCode.INVALID_CONFIG
    append = ConfigOperation.APPEND
    assert check_error(configs, GROUP, "share.heartbeat.interval.ms", "1", append) is ErrorCode.INVALID_CONFIG
    alter(configs, GROUP, "share.heartbeat.interval.ms", "400")


def test_lists_grow_and_shrink_from_kafkas_default() -> None:
    """The conversation other-alter-configs."""
    configs = make_configs()
    alter(configs, TOPIC, "cleanup.policy", "compact", ConfigOperation.APPEND)
    assert configs.topic("t")["cleanup.policy"] == ["delete", "compact"]
    alter(configs, TOPIC, "cleanup.policy", "delete", ConfigOperation.SUBTRACT)
    assert configs.topic("t")["cleanup.policy"] == ["compact"]
    assert check_error(configs, TOPIC, "retention.ms", "1", ConfigOperation.APPEND) is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("resource", "name", "value", "code"),
    [
        (TOPIC, "retention.ms", "abc", ErrorCode.INVALID_CONFIG),
        (TOPIC, "nosuch", "1", ErrorCode.INVALID_CONFIG),
        (Resource(ResourceKind.TOPIC, ""), "retention.ms", "1", ErrorCode.INVALID_REQUEST),
        (Resource(ResourceKind.TOPIC, "bad name!"), "retention.ms", "1", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Resource(ResourceKind.GROUP, ""), "share.delivery.count.limit", "3", ErrorCode.INVALID_REQUEST),
        (GROUP, "nosuch", "3", ErrorCode.INVALID_CONFIG),
        (BROKER, "node.id", "3", ErrorCode.INVALID_REQUEST),
        (BROKER, "log.retention.ms", "x", ErrorCode.INVALID_REQUEST),
        (BROKER, "min.insync.replicas", "1", ErrorCode.INVALID_CONFIG),
        (ALL_BROKERS, "group.share.assignment.interval.ms", "15001", ErrorCode.INVALID_REQUEST),
        (ALL_BROKERS, "listeners", "PLAINTEXT://:1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_each_error_has_kafkas_code(resource: Resource, name: str, value: str, code: ErrorCode) -> None:
    assert check_error(make_configs(), resource, name, value) is code


def test_a_topics_entry_has_its_source_and_synonyms() -> None:
    """The conversation other-describe-configs."""
    configs = make_configs()
    alter(configs, TOPIC, "retention.ms", "5000")
    retention, policy = describe_entries(configs, TOPIC, ["retention.ms", "cleanup.policy", "nosuch"], 0)[::-1]

    assert (retention.value, retention.source, retention.type) == ("5000", ConfigSource.TOPIC, 5)
    assert retention.synonyms == (Synonym("retention.ms", "5000", ConfigSource.TOPIC),)
    assert (policy.value, policy.source, policy.type) == ("delete", ConfigSource.DEFAULT, 7)
    assert policy.synonyms == (Synonym("log.cleanup.policy", "delete", ConfigSource.DEFAULT),)


def test_a_topic_shows_all_but_the_internal_names_and_the_clusters_min_insync_replicas() -> None:
    entries = {entry.name: entry for entry in describe_entries(make_configs(), TOPIC, None, 0)}

    assert len(entries) == 37
    assert entries["min.insync.replicas"].source is ConfigSource.DYNAMIC_DEFAULT_BROKER
    assert entries["retention.ms"].source is ConfigSource.DEFAULT
    assert entries["follower.replication.throttled.replicas"].value == ""


def test_a_groups_entry_has_its_source_and_synonyms() -> None:
    """The conversation share-config-describe."""
    configs = make_configs(group_share_assignment_interval_ms="0")
    alter(configs, GROUP, "share.auto.offset.reset", "earliest")
    alter(configs, GROUP, "share.delivery.count.limit", "7")
    entries = {entry.name: entry for entry in describe_entries(configs, GROUP, None, 0)}

    assert len(entries) == 21
    assert entries["share.assignment.interval.ms"].source is ConfigSource.STATIC_BROKER
    assert entries["share.auto.offset.reset"].synonyms == (
        Synonym("share.auto.offset.reset", "earliest", ConfigSource.GROUP),
        Synonym("share.auto.offset.reset", "latest", ConfigSource.DEFAULT),
    )
    assert entries["share.delivery.count.limit"].synonyms == (
        Synonym("share.delivery.count.limit", "7", ConfigSource.GROUP),
        Synonym("group.share.delivery.count.limit", "5", ConfigSource.DEFAULT),
    )


def test_a_broker_shows_no_secret_and_marks_read_only_values() -> None:
    configs = make_configs(ssl_key_password="hush", my_own="x")
    alter(configs, BROKER, "log.cleaner.threads", "2")
    entries = {entry.name: entry for entry in describe_entries(configs, BROKER, None, 0)}

    assert (entries["ssl.key.password"].value, entries["ssl.key.password"].sensitive) == (None, True)
    assert entries["ssl.key.password"].synonyms[0].value is None
    assert (entries["my.own"].value, entries["my.own"].type) == (None, 0)
    assert (entries["node.id"].read_only, entries["log.cleaner.threads"].read_only) == (True, False)
    assert entries["log.cleaner.threads"].source is ConfigSource.DYNAMIC_BROKER
    assert [entry.name for entry in describe_entries(configs, ALL_BROKERS, None, 0)] == ["min.insync.replicas"]


def test_a_new_topics_entries_are_those_that_it_would_have() -> None:
    configs = make_configs(log_retention_hours="1")
    entries = {entry.name: entry for entry in creation_entries(configs, {"segment.ms": "9"})}

    assert (entries["segment.ms"].value, entries["segment.ms"].source) == ("9", ConfigSource.TOPIC)
    assert (entries["retention.ms"].value, entries["retention.ms"].source) == ("3600000", ConfigSource.STATIC_BROKER)
    assert len(entries) == 37


def test_topics_and_groups_have_the_settings_of_the_broker_that_uses_them() -> None:
    configs = make_configs()
    alter(configs, ALL_BROKERS, "log.retention.ms", "20")
    alter(configs, BROKER, "log.retention.ms", "10")
    alter(configs, BROKER, "group.consumer.assignment.interval.ms", "1500")

    assert [configs.topic("t", node)["retention.ms"] for node in (0, 1, None)] == [10, 20, 20]
    name = "consumer.assignment.interval.ms"
    assert [configs.group("g", node)[name] for node in (0, 1, None)] == [1500, 1000, 1000]
    alter(configs, TOPIC, "retention.ms", "5")
    assert [configs.topic("t", node)["retention.ms"] for node in (0, 1, None)] == [5, 5, 5]


def test_the_synonyms_of_a_topic_are_those_of_the_broker_that_describes_it() -> None:
    configs = make_configs(log_retention_ms="30")
    alter(configs, ALL_BROKERS, "log.retention.ms", "20")
    alter(configs, BROKER, "log.retention.ms", "10")
    own, other = (describe_entries(configs, TOPIC, ["retention.ms"], node)[0] for node in (0, 1))

    common = (
        Synonym("log.retention.ms", "20", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Synonym("log.retention.ms", "30", ConfigSource.STATIC_BROKER),
        Synonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    )
    assert (own.value, own.source) == ("10", ConfigSource.DYNAMIC_BROKER)
    assert own.synonyms == (Synonym("log.retention.ms", "10", ConfigSource.DYNAMIC_BROKER), *common)
    assert (other.value, other.source, other.synonyms) == ("20", ConfigSource.DYNAMIC_DEFAULT_BROKER, common)


def test_a_new_topic_is_described_by_the_settings_of_the_controllers_node() -> None:
    configs = make_configs(node_id="3")
    for node, value in (("3", "10"), ("4", "20")):
        alter(configs, Resource(ResourceKind.BROKER, node), "log.retention.ms", value)

    entry = next(entry for entry in creation_entries(configs, {}) if entry.name == "retention.ms")
    assert (entry.value, entry.source) == ("10", ConfigSource.DYNAMIC_BROKER)


def test_lags_that_contradict_each_other_are_refused_with_what_is_inherited() -> None:
    configs = make_configs()
    alter(configs, TOPIC, "min.compaction.lag.ms", "2000")
    alter(configs, BROKER, "log.cleaner.max.compaction.lag.ms", "3000")

    assert check_error(configs, TOPIC, "min.compaction.lag.ms", "3001") is ErrorCode.INVALID_CONFIG
    assert check_error(configs, TOPIC, "max.compaction.lag.ms", "1999") is ErrorCode.INVALID_CONFIG
    alter(configs, TOPIC, "max.compaction.lag.ms", "2000")
    alter(configs, BROKER, "log.cleaner.min.compaction.lag.ms", "3001")
    with pytest.raises(ConfigError, match=r"log\.cleaner\.min\.compaction\.lag\.ms"):
        make_configs(log_cleaner_min_compaction_lag_ms="2", log_cleaner_max_compaction_lag_ms="1")


def test_the_views_of_a_deleted_topic_are_dropped() -> None:
    configs = make_configs()
    alter(configs, TOPIC, "retention.ms", "5")
    view = configs.topic("t", 0)
    configs.remove_overrides(TOPIC)

    assert view["retention.ms"] == 604_800_000
    assert configs.topic("t", 0) is not view
