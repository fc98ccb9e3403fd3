"""Profiles of timers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mockbroker.cluster_options import config_dialect
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.config.keys import ConfigError
from mockbroker.config.profiles import PROFILES, profile_settings
from mockbroker.state.share.share_rules import SHARE_EDITIONS

PAGE = Path(__file__).parents[3] / "docs" / "mockbroker.md"
QUICK = PROFILES["quick"]


def test_the_profile_kafka_changes_nothing() -> None:
    config = BrokerConfig()

    assert dict(config.with_settings(profile_settings("kafka"))) == dict(config)


def test_the_profile_quick_sets_what_the_page_lists() -> None:
    config = BrokerConfig().with_settings(QUICK)
    listed = {
        name.replace("KIND", kind)
        for name in re.findall(r"`(group\.[\w.]*\.ms)`", PAGE.read_text("utf-8").partition("Profiles of timers")[2])
        for kind in ("consumer", "share", "streams")
    }

    assert QUICK.keys() <= listed
    assert {name: str(config[name]) for name in QUICK} == dict(QUICK)
    assert QUICK.keys() <= config.given.keys()


def test_configurations_that_are_given_take_precedence() -> None:
    given = {"group.initial.rebalance.delay.ms": "700", "group.share.heartbeat.interval.ms": "9000"}
    config = BrokerConfig(given).with_settings(QUICK)

    assert config.integer("group.initial.rebalance.delay.ms") == 700
    assert config.integer("group.share.heartbeat.interval.ms") == 9000
    assert config.integer("group.consumer.heartbeat.interval.ms") == 100


def test_a_configuration_that_contradicts_the_profile_is_refused_by_name() -> None:
    config = BrokerConfig({"group.share.min.heartbeat.interval.ms": "5000"})

    with pytest.raises(ConfigError, match=r"group\.share\.min\.heartbeat\.interval\.ms"):
        config.with_settings(QUICK)


@pytest.mark.parametrize("edition", SHARE_EDITIONS)
def test_an_edition_has_the_settings_of_the_profile_that_it_knows(edition: str) -> None:
    config = BrokerConfig(release="4.3", dialect=config_dialect(edition)).with_settings(QUICK)

    assert config.integer("group.initial.rebalance.delay.ms") == 0
    assert config.integer("group.share.heartbeat.interval.ms") == 100
    assert config.unknown == []


def test_an_unknown_profile_names_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="profile: 'slow' is not one of kafka, quick"):
        profile_settings("slow")
