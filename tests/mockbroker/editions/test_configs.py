"""Configurations by the names, defaults and ranges of each revision of KIP-932 (r1 to r4)."""

from __future__ import annotations

from typing import Any

import pytest

from kwire import Client, from_json, to_json
from kwire.error_codes import ErrorCode
from mockbroker import Cluster, cli
from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.config.keys import Scope
from mockbroker.editions.configs import EDITION_CONFIGS, all_configs, config_dialect
from tests.support.brokers.draft_members import GROUP, MEMBER, running_member

EARLY = "4.0-early-access"
R1, R2, R3, R4, R5 = "kip932-r1", "kip932-r2", "kip932-r3", "kip932-r4", "kip932-r5"
BROKER, GROUP_TYPE = 4, 32
LONGEST = "share.record.lock.duration.max.ms"
#: The configurations that a 4.0.0 broker lists, without its two internal ones.
LISTED_BY_4_0_0 = [
    *(f"group.share.{name}" for name in ("delivery.count.limit", "heartbeat.interval.ms", "max.groups")),
    *(f"group.share.max.{name}" for name in ("heartbeat.interval.ms", "record.lock.duration.ms")),
    *("group.share.max.session.timeout.ms", "group.share.max.size", "group.share.min.heartbeat.interval.ms"),
    *("group.share.min.record.lock.duration.ms", "group.share.min.session.timeout.ms"),
    *(
        "group.share.partition.max.record.locks",
        "group.share.record.lock.duration.ms",
        "group.share.session.timeout.ms",
    ),
    *("share.coordinator.append.linger.ms", "share.coordinator.load.buffer.size"),
    "share.coordinator.snapshot.update.records.per.snapshot",
    *(f"share.coordinator.state.topic.{name}" for name in ("compression.codec", "min.isr", "num.partitions")),
    *("share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.segment.bytes"),
    *("share.coordinator.threads", "share.coordinator.write.timeout.ms"),
    "share.fetch.purgatory.purge.interval.requests",
]


def _alter_configs(client: Client, **settings: str) -> tuple[int, str | None]:
    configs = [{"name": name.replace("_", "."), "configOperation": 0, "value": text} for name, text in settings.items()]
    resource = {"resourceType": GROUP_TYPE, "resourceName": GROUP, "configs": configs}
    row = client.send(from_json("IncrementalAlterConfigsRequest", 1, {"resources": [resource]}), 1).responses[0]
    return row.error_code, row.error_message


def _describe_configs(client: Client, kind: int, name: str) -> dict[str, dict[str, Any]]:
    resource = {"resourceType": kind, "resourceName": name, "configurationKeys": None}
    tree = {"resources": [resource], "includeSynonyms": True}
    answer = to_json(client.send(from_json("DescribeConfigsRequest", 4, tree), 4), 4)
    assert isinstance(answer, dict)
    results: Any = answer["results"]
    return {row["name"]: row for row in results[0]["configs"]}


@pytest.mark.parametrize(
    ("edition", "name", "released", "default", "bounds"),
    [
        (R1, "share.delivery.count.limit", "group.share.delivery.count.limit", 5, (2, 10)),
        (R1, "share.record.lock.duration.ms", "group.share.record.lock.duration.ms", 30_000, (1_000, 60_000)),
        (R1, LONGEST, "group.share.max.record.lock.duration.ms", 60_000, (30_000, 3_600_000)),
        (R1, "share.record.lock.partition.limit", "group.share.partition.max.record.locks", 200, (100, 10_000)),
        (R2, "group.share.delivery.count.limit", "group.share.delivery.count.limit", 5, (2, 10)),
        (R2, "group.share.record.lock.duration.ms", "group.share.record.lock.duration.ms", 30_000, (1_000, 60_000)),
        (R2, "group.share.record.lock.partition.limit", "group.share.partition.max.record.locks", 200, (100, 10_000)),
        (R2, "group.share.max.size", "group.share.max.size", 200, (10, 1_000)),
    ],
)
def test_revisions_r1_and_r2_names_defaults_and_ranges_of_brokers(
    edition: str, name: str, released: str, default: int, bounds: tuple[int, int]
) -> None:
    dialect, (low, high) = config_dialect(edition), bounds

    assert BrokerConfig(dialect=dialect)[released] == default
    for value in (low, high):
        assert BrokerConfig({name: str(value)}, dialect=dialect)[released] == value
    if name == LONGEST:
        low = 1_000  # Below 30 seconds the lock has to be shorter as well.
        shortest = {"share.record.lock.duration.ms": "1000", name: "1000"}
        assert BrokerConfig(shortest, dialect=dialect)[released] == low
    for value in (low - 1, high + 1):
        with pytest.raises(ConfigError, match=rf"^{name}: '{value}' is not allowed; valid values: \[{low},"):
            BrokerConfig({name: str(value)}, dialect=dialect)


@pytest.mark.parametrize("edition", [R1, R2, R3, R4, R5])
def test_a_released_name_is_refused_with_the_name_of_the_draft(edition: str) -> None:
    of_brokers = (row for row in EDITION_CONFIGS[edition] if row.scope is Scope.BROKER)
    renamed = [row for row in of_brokers if row.released not in (None, row.name)]
    assert renamed
    for row in renamed:
        with pytest.raises(ConfigError, match=rf"^{row.released}: in {edition} this is {row.name}$"):
            BrokerConfig({str(row.released): "200"}, dialect=config_dialect(edition))


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("group.share.max.groups", 1, 100),
        ("group.share.partition.max.record.locks", 100, 10_000),
        ("share.coordinator.append.linger.ms", 0, 60_000),
        ("share.coordinator.snapshot.update.records.per.snapshot", 0, 100_000),
    ],
)
def test_ranges_of_4_0_0(name: str, low: int, high: int) -> None:
    dialect = config_dialect(EARLY)

    for value in (low, high):
        BrokerConfig({name: str(value)}, dialect=dialect)
    with pytest.raises(ConfigError, match=rf"^{name}: '{low - 1}' is not allowed; valid values: \[{low},"):
        BrokerConfig({name: str(low - 1)}, dialect=dialect)


def test_4_0_0_lacks_later_configurations_and_describes_removed_ones() -> None:
    later = {"group.share.max.share.sessions": "0", "group.share.assignors": "none"}
    assert BrokerConfig(later, dialect=config_dialect(EARLY)).unknown == list(later)

    with Cluster(share_edition=EARLY) as cluster, Client(cluster.bootstrap_servers) as client:
        shown = _describe_configs(client, BROKER, "0")
    assert sorted(name for name in shown if name.startswith(("group.share.", "share."))) == LISTED_BY_4_0_0
    defaults = {"group.share.max.groups": "10", "group.share.partition.max.record.locks": "200"}
    for name, value in (defaults | {"share.coordinator.append.linger.ms": "10"}).items():
        assert shown[name]["value"] == shown[name]["synonyms"][-1]["value"] == value


def test_4_0_0_has_two_ways_to_switch_share_groups_on() -> None:
    dialect = config_dialect(EARLY)
    assert dialect is not None

    assert dialect.enables_share_groups({})
    assert not dialect.enables_share_groups({"group.share.enable": "false"})
    protocols = {"group.share.enable": "false", "group.coordinator.rebalance.protocols": "classic, Share"}
    assert dialect.enables_share_groups(protocols)


def test_a_draft_name_means_nothing_to_the_released_edition() -> None:
    assert BrokerConfig({"share.delivery.count.limit": "3"}).unknown == ["share.delivery.count.limit"]


def test_every_edition_starts_with_all_of_its_names_set_to_their_defaults() -> None:
    assert {edition for edition, _ in all_configs()} == {EARLY, R1, R2, R3, R4, R5}
    for edition, table in EDITION_CONFIGS.items():
        given = {row.name: row.default for row in table if row.scope is Scope.BROKER and row.default is not None}
        config = BrokerConfig(given, dialect=config_dialect(edition))
        assert config.unknown == []
        with Cluster(share_edition=edition, properties=given):
            pass


@pytest.mark.parametrize(
    ("edition", "names"),
    [
        (R1, {"group.type", "record.lock.duration.ms"}),
        (R2, {"group.type", "record.lock.duration.ms"}),
        (R3, {"group.type", "record.lock.duration.ms", "group.share.isolation.level"}),
        (R4, {"group.type", "record.lock.duration.ms", "group.share.isolation.level", "group.share.auto.offset.reset"}),
    ],
)
def test_groups_are_described_and_altered_by_the_names_of_the_draft(edition: str, names: set[str]) -> None:
    with Cluster(share_edition=edition) as cluster, Client(cluster.bootstrap_servers) as client:
        before = _describe_configs(client, GROUP_TYPE, GROUP)
        assert before.keys() >= names
        assert "share.record.lock.duration.ms" not in before
        assert (before["group.type"]["value"], before["record.lock.duration.ms"]["value"]) == ("consumer", "30000")

        assert _alter_configs(client, group_type="share", record_lock_duration_ms="1000") == (0, None)
        after = _describe_configs(client, GROUP_TYPE, GROUP)
        assert (after["group.type"]["value"], after["record.lock.duration.ms"]["value"]) == ("share", "1000")
        first = after["record.lock.duration.ms"]["synonyms"][0]
        assert (first["name"], first["value"]) == ("record.lock.duration.ms", "1000")

        message = f"share.record.lock.duration.ms: in {edition} this is record.lock.duration.ms"
        assert _alter_configs(client, share_record_lock_duration_ms="20000") == (ErrorCode.INVALID_CONFIG, message)
        for name, value in (("group_type", "classic"), *(("record_lock_duration_ms", n) for n in ("999", "60001"))):
            assert _alter_configs(client, **{name: value})[0] == ErrorCode.INVALID_CONFIG


def test_pages_003_and_002_isolation_and_reset_are_the_groups_own_and_have_the_prefix() -> None:
    with Cluster(share_edition=R4) as cluster, Client(cluster.bootstrap_servers) as client:
        settings = {"group_share_isolation_level": "read_committed", "group_share_auto_offset_reset": "earliest"}
        assert _alter_configs(client, **settings) == (0, None)
        assert _alter_configs(client, share_isolation_level="read_committed")[0] == ErrorCode.INVALID_CONFIG
        group = cluster.run(lambda server: dict(server.core.state.configs.group(GROUP)))

    assert (group["share.isolation.level"], group["share.auto.offset.reset"]) == ("read_committed", "earliest")


def test_a_broker_is_described_by_the_names_and_defaults_of_the_draft() -> None:
    properties = {"share.delivery.count.limit": "3"}
    with Cluster(share_edition=R1, properties=properties) as cluster, Client(cluster.bootstrap_servers) as client:
        shown = _describe_configs(client, BROKER, "0")

    assert (shown["share.delivery.count.limit"]["value"], shown["share.group.enable"]["value"]) == ("3", "true")
    synonyms = [(one["name"], one["value"]) for one in shown["share.delivery.count.limit"]["synonyms"]]
    assert synonyms == [("share.delivery.count.limit", "3"), ("share.delivery.count.limit", "5")]
    limit = shown["share.record.lock.partition.limit"]
    assert (limit["value"], limit["synonyms"][0]["value"]) == ("200", "200")
    assert "group.share.delivery.count.limit" not in shown


@pytest.mark.parametrize("edition", [R1, R2, R3, R4, R5])
def test_without_share_groups_every_api_returns_unsupported_version(edition: str) -> None:
    session = {"groupId": GROUP, "memberId": MEMBER, "shareSessionEpoch": 0, "topics": []}
    asked: dict[str, dict[str, Any]] = {
        "ShareGroupDescribe": {"groupIds": [GROUP]},
        "ShareFetch": session | {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 1},
        "ShareAcknowledge": session,
    }
    name = "share.group.enable" if edition == R1 else "group.share.enable"
    with running_member(edition, **{name: "false"}) as member:
        described, fetched, acknowledged = (member.call(api, tree) for api, tree in asked.items())
        joined = member.join()

    codes = [row.error_code for row in (described.groups[0], fetched, acknowledged, joined)]
    assert codes == [ErrorCode.UNSUPPORTED_VERSION] * 4


def test_the_command_takes_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--port", "0", "--share-edition", R1, "--set", "group.share.delivery.count.limit=3"]

    assert cli.main(arguments) == 2
    assert f"in {R1} this is share.delivery.count.limit" in capsys.readouterr().err
