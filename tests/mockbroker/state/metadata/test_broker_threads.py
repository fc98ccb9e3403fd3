"""Numbers of threads: from half to twice the current one, of the broker that is asked."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.state.metadata.broker_threads import check_broker_threads
from mockbroker.state.metadata.configs import ALL_BROKERS, Configs, Resource, ResourceKind
from tests.support.raises_code import code_of

BROKER = Resource(ResourceKind.BROKER, "0")


def make_configs(**given: str) -> Configs:
    return Configs(BrokerConfig({name.replace("_", "."): text for name, text in given.items()}))


def is_refused(configs: Configs, resource: Resource, after: dict[str, str]) -> bool:
    def check() -> None:
        check_broker_threads(configs, 0, resource, after, listeners=["CLIENTS"])

    try:
        check()
    except Exception:
        assert code_of(check) == ErrorCode.INVALID_REQUEST
        return True
    return False


@pytest.mark.parametrize(("count", "refused"), [("17", True), ("16", False), ("4", False), ("3", True)])
@pytest.mark.parametrize("resource", [BROKER, ALL_BROKERS], ids=["broker", "all brokers"])
def test_a_change_is_from_half_to_twice_the_current_number(resource: Resource, count: str, refused: bool) -> None:
    assert is_refused(make_configs(num_io_threads="8"), resource, {"num.io.threads": count}) is refused


def test_a_number_for_all_brokers_does_not_concern_one_with_its_own() -> None:
    configs = make_configs(num_io_threads="8")
    configs.set_overrides(BROKER, {"num.io.threads": "16"})

    assert not is_refused(configs, ALL_BROKERS, {"num.io.threads": "99"})
    configs.set_overrides(ALL_BROKERS, {"num.io.threads": "99"})
    assert is_refused(configs, BROKER, {})
    assert not is_refused(configs, BROKER, {"num.io.threads": "32"})


def test_the_threads_of_a_listener_are_those_of_all_listeners_until_it_has_its_own() -> None:
    configs = make_configs(num_network_threads="3")
    name = "listener.name.clients.num.network.threads"

    assert is_refused(configs, BROKER, {name: "7"})
    assert not is_refused(configs, BROKER, {name: "6"})
    assert not is_refused(configs, BROKER, {"listener.name.others.num.network.threads": "7"})


def test_each_cleaner_thread_has_more_than_a_mebibyte() -> None:
    configs = make_configs(log_cleaner_dedupe_buffer_size=str(2 << 20))

    assert is_refused(configs, BROKER, {"log.cleaner.threads": "2"})
    assert is_refused(configs, BROKER, {"log.cleaner.threads": "0"})
    assert not is_refused(configs, BROKER, {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097154"})
