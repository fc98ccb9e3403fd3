"""`mockbroker.replication`: whether followers fetch as in Kafka, a configuration that Kafka does not have."""

from __future__ import annotations

from collections.abc import Mapping

from mockbroker.config.keys import ConfigError, Value

REPLICATION = "mockbroker.replication"
#: Followers fetch; or they have every record at once, the default.
REAL, IMMEDIATE = "real", "immediate"
#: Names with an effect where followers fetch.
EFFECTIVE_NAMES = ("num.replica.fetchers", "replica.fetch.", "replica.lag.time.max.ms")
_WAIT, _LAG = "replica.fetch.wait.max.ms", "replica.lag.time.max.ms"


def has_real_replication(given: Mapping[str, str]) -> bool:
    """Whether the set values switch it on. Raises: ConfigError."""
    mode = given.get(REPLICATION, IMMEDIATE).strip()
    if mode not in (REAL, IMMEDIATE):
        raise ConfigError(f"{REPLICATION}: {mode!r} is neither {REAL} nor {IMMEDIATE}")
    return mode == REAL


def check_replication(config: Mapping[str, Value]) -> None:
    """Refuse what Kafka refuses at its start: a follower that waits for longer than it may lag. Raises: ConfigError."""
    wait_ms, lag_ms = config[_WAIT], config[_LAG]
    assert isinstance(wait_ms, int)
    assert isinstance(lag_ms, int)
    if wait_ms > lag_ms:
        raise ConfigError(f"{_WAIT}: {wait_ms} must be at most {_LAG}, {lag_ms}")
