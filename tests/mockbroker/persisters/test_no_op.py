"""group.share.persister.class.name: the no-op persister, by its name or by an empty one (share-semantics 7.6)."""

from __future__ import annotations

import pytest

from mockbroker import cli
from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.config.plugins import NO_OP_PERSISTER
from mockbroker.persisters.no_op import NoOpPersister
from mockbroker.state.metadata.configs import Resource, ResourceKind
from tests.support.brokers.share_members import ShareBroker

NAME = "group.share.persister.class.name"
ACCEPT = [1]


@pytest.fixture(params=[NO_OP_PERSISTER, ""])
def broker(request: pytest.FixtureRequest) -> ShareBroker:
    return ShareBroker(config={NAME: request.param})


def _read_from_the_start(broker: ShareBroker) -> None:
    resource = Resource(ResourceKind.GROUP, "g")
    broker.core.state.configs.set_overrides(resource, {"share.auto.offset.reset": "earliest"})


def test_records_are_delivered_and_acknowledged_without_a_stored_state(broker: ShareBroker) -> None:
    _read_from_the_start(broker)
    broker.produce("A", 3)
    assert broker.fetch("m1", 0, "A0", wait_ms=100) == "A0 0-2/1"
    assert broker.ack("m1", 1, {("A", 0): [(0, 2, ACCEPT)]}) == "A0"
    broker.produce("A", 2)

    assert broker.fetch("m1", 2) == "A0 3-4/1"


def test_a_share_partition_that_is_loaded_again_starts_without_open_batches(broker: ShareBroker) -> None:
    _read_from_the_start(broker)
    broker.produce("A", 3)
    broker.fetch("m1", 0, "A0", wait_ms=100)
    broker.ack("m1", 1, {("A", 0): [(0, 2, ACCEPT)]})
    broker.disconnect("m1")

    assert broker.fetch("m2", 0, "A0", wait_ms=100) == "A0 0-2/1"


def test_any_other_class_is_refused() -> None:
    with pytest.raises(ConfigError, match=f"{NAME}: 'Mine'"):
        BrokerConfig({NAME: "Mine"})


def test_the_command_has_a_short_option_for_it(broker: ShareBroker) -> None:
    options = cli._parse_options(cli._create_parser().parse_args(["--share-persister", "no-op"]))

    assert options.config[NAME] == NO_OP_PERSISTER
    assert isinstance(broker.core.state.nodes[0].persister, NoOpPersister)
