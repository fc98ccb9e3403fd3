"""The numbers of a broker's threads: how much one change may alter them, and the memory of the log cleaner's.

Source: answers of Kafka 4.3.0 and 4.4.0, pinned by the conversation other-broker-thread-counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.error_codes import ErrorCode
from mockbroker.config.cleaner_checks import check_cleaner_memory
from mockbroker.config.keys import ConfigError, Scope
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.configs import ALL_BROKERS, Configs, Resource, ResourceKind

_NETWORK_THREADS = "num.network.threads"
_CLEANER = ("log.cleaner.threads", "log.cleaner.dedupe.buffer.size")
_THREAD_COUNTS = (
    "background.threads",
    _CLEANER[0],
    "num.io.threads",
    _NETWORK_THREADS,
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)


def check_broker_threads(
    configs: Configs, node_id: int, resource: Resource, after: Mapping[str, str], *, listeners: list[str]
) -> None:
    """Refuse numbers of threads that a running broker cannot change to.

    node_id: of the broker that is asked; with a configuration of its own, one for all brokers does not concern it.
    after: all texts of the resource, already checked one by one. listeners: their names.
    Raises: KafkaError(INVALID_REQUEST).
    """
    node = Resource(ResourceKind.BROKER, str(node_id))
    old_texts = {**configs.overrides(ALL_BROKERS), **configs.overrides(node)}
    new_texts = {
        **(after if resource == ALL_BROKERS else configs.overrides(ALL_BROKERS)),
        **(after if resource == node else configs.overrides(node)),
    }
    names = {name: name for name in _THREAD_COUNTS}
    names |= {f"listener.name.{listener.lower()}.{_NETWORK_THREADS}": _NETWORK_THREADS for listener in listeners}
    try:
        for name, base in names.items():
            _check_resize(name, _count(configs, old_texts, name, base), _count(configs, new_texts, name, base))
        check_cleaner_memory(*(_count(configs, new_texts, name, name) for name in _CLEANER))
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _count(configs: Configs, texts: Mapping[str, str], name: str, base: str) -> int:
    text = texts.get(name, texts.get(base))
    value = configs.static[base] if text is None else configs.static.known_keys(Scope.BROKER)[base].parse(text)
    assert isinstance(value, int)
    return value


def _check_resize(name: str, old: int, new: int) -> None:
    if new > 2 * old:
        raise ConfigError(f"{name}: {new} is more than twice the current number, which is {old}")
    if new < old // 2:
        raise ConfigError(f"{name}: {new} is less than half of the current number, which is {old}")
