"""`ReplicationOptions`: whether followers fetch as in Kafka, and where consumers fetch; racks of the nodes.

Of these names those that begin with `mockbroker.` are none of Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mockbroker.config.keys import ConfigError, Value
from mockbroker.config.limits import LIMIT_NAMES
from mockbroker.config.plugins import RACK_AWARE_SELECTOR

MODE, RACKS = "mockbroker.replication", "mockbroker.racks"
#: The API versions of an older broker, which `node_options` reads.
VERSIONS = "mockbroker.versions"
#: Names that Kafka does not have.
OWN_NAMES = (MODE, RACKS, VERSIONS, *LIMIT_NAMES)
_REAL, _IMMEDIATE = "real", "immediate"
#: Names with an effect where followers fetch.
_NAMES_OF_FOLLOWERS = ("num.replica.fetchers", "replica.fetch.", "replica.lag.time.max.ms")
_SELECTOR = "replica.selector.class"
_WAIT, _LAG = "replica.fetch.wait.max.ms", "replica.lag.time.max.ms"


class ReplicationOptions(msgspec.Struct, frozen=True):
    """is_real: followers fetch, and may lag; otherwise they have every record at once. racks: of the nodes in order.

    selects_replicas: the leader sends consumers to replicas in their racks (KIP-392).
    """

    is_real: bool = False
    racks: tuple[str, ...] = ()
    selects_replicas: bool = False

    @property
    def effective_names(self) -> tuple[str, ...]:
        """The names of Kafka that have an effect, a prefix where one ends with a dot."""
        return (*(_NAMES_OF_FOLLOWERS if self.is_real else ()), *((_SELECTOR,) if self.selects_replicas else ()))

    def find_rack(self, node_number: int, default: str | None) -> str | None:
        """The rack of a node, numbered from 0. default: that of nodes without one of their own."""
        return self.racks[node_number] if node_number < len(self.racks) else default


def parse_replication(given: Mapping[str, str]) -> ReplicationOptions:
    """Read the options from the values that are set. Raises: ConfigError."""
    mode = given.get(MODE, _IMMEDIATE).strip()
    if mode not in (_REAL, _IMMEDIATE):
        raise ConfigError(f"{MODE}: {mode!r} is neither {_REAL} nor {_IMMEDIATE}")
    text = given.get(RACKS, "").strip()
    racks = tuple(rack.strip() for rack in text.split(",")) if text else ()
    if "" in racks:
        raise ConfigError(f"{RACKS}: {text!r} has an empty name")
    return ReplicationOptions(mode == _REAL, racks, given.get(_SELECTOR, "").strip() == RACK_AWARE_SELECTOR)


def check_replication(config: Mapping[str, Value]) -> None:
    """Refuse what Kafka refuses at its start: a follower that waits for longer than it may lag. Raises: ConfigError."""
    wait_ms, lag_ms = config[_WAIT], config[_LAG]
    assert isinstance(wait_ms, int)
    assert isinstance(lag_ms, int)
    if wait_ms > lag_ms:
        raise ConfigError(f"{_WAIT}: {wait_ms} must be at most {_LAG}, {lag_ms}")
