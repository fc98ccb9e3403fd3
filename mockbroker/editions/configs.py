"""Names and ranges of share-group configurations in each revision of KIP-932.

Within the broker every configuration has its released name. A dialect translates it to the revision's name in
properties, `--set`, and the configuration APIs. A configuration without a name in the revision has its name of Kafka
4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from msgspec import structs

from mockbroker.config.keys import ConfigError, ConfigKey, ConfigType, Scope, config_keys, create_key, format_value
from mockbroker.config.releases import EDITION_RELEASE

_BOOLEAN, _INT, _STRING, _LIST = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.STRING, ConfigType.LIST
EARLY_ACCESS = "4.0-early-access"
R1, R2, R3, R4, R5 = "kip932-r1", "kip932-r2", "kip932-r3", "kip932-r4", "kip932-r5"


class DraftConfig(NamedTuple):
    """One configuration of a revision.

    released: its name in 4.3, or None. default: None for that of 4.3. page_default: a different default on the page.
    is_internal: it is not described unless it is set.
    """

    scope: Scope
    name: str
    released: str | None
    type: ConfigType
    default: str | None
    valid: str
    page_default: str | None = None
    is_internal: bool = False


def _enable_config(prefix: str, *, is_internal: bool = False) -> DraftConfig:
    # On the pages it is false "while the feature is being developed"; selecting an edition enables it.
    return DraftConfig(Scope.BROKER, f"{prefix}enable", None, _BOOLEAN, "true", "", "false", is_internal)


def _broker_limits(prefix: str) -> tuple[DraftConfig, ...]:
    all_configs = (
        ("delivery.count.limit", "delivery.count.limit", "5", "[2,...,10]"),
        ("record.lock.duration.ms", "record.lock.duration.ms", "30000", "[1000,...,60000]"),
        ("record.lock.duration.max.ms", "max.record.lock.duration.ms", "60000", "[1000,...,3600000]"),
        ("record.lock.partition.limit", "partition.max.record.locks", "200", "[100,...,10000]"),
    )
    return tuple(
        DraftConfig(Scope.BROKER, f"{prefix}{name}", f"group.share.{released}", _INT, default, valid)
        for name, released, default, valid in all_configs
    )


_GROUP_LIMITS = (
    *(
        DraftConfig(Scope.BROKER, name, name, _INT, default, valid)
        for name, default, valid in (
            ("group.share.session.timeout.ms", "45000", "[1,...]"),
            ("group.share.min.session.timeout.ms", "45000", "[1,...]"),
            ("group.share.max.session.timeout.ms", "60000", "[1,...]"),
            ("group.share.heartbeat.interval.ms", "5000", "[1,...]"),
            ("group.share.min.heartbeat.interval.ms", "5000", "[1,...]"),
            ("group.share.max.heartbeat.interval.ms", "15000", "[1,...]"),
            ("group.share.max.size", "200", "[10,...,1000]"),
        )
    ),
    DraftConfig(Scope.BROKER, "group.share.max.groups", None, _INT, "10", "[1,...,100]"),
    DraftConfig(Scope.BROKER, "group.share.assignors", "group.share.assignors", _LIST, None, "", ""),
)

_GROUPS = (
    DraftConfig(Scope.GROUP, "group.type", None, _STRING, "consumer", "[consumer, share]"),
    DraftConfig(Scope.GROUP, "record.lock.duration.ms", "share.record.lock.duration.ms", _INT, None, "[1000,...]"),
)
_LEVELS = "[read_committed, read_uncommitted]"
_ISOLATION = DraftConfig(Scope.GROUP, "group.share.isolation.level", "share.isolation.level", _STRING, None, _LEVELS)
_RESET = DraftConfig(
    Scope.GROUP, "group.share.auto.offset.reset", "share.auto.offset.reset", _STRING, None, "[latest, earliest]"
)

_PREFIXED = (_enable_config("group.share."), *_broker_limits("group.share."), *_GROUP_LIMITS, *_GROUPS)
#: Source: GroupCoordinatorConfig, ShareGroupConfig and ShareCoordinatorConfig of 4.0.0; others are as in 4.3.
_EARLY = (
    _enable_config("group.share.", is_internal=True),
    DraftConfig(Scope.BROKER, "group.share.max.groups", None, ConfigType.SHORT, "10", "[1,...,100]"),
    *(
        DraftConfig(Scope.BROKER, name, name, _INT, default, valid)
        for name, default, valid in (
            ("group.share.partition.max.record.locks", "200", "[100,...,10000]"),
            ("share.coordinator.append.linger.ms", "10", "[0,...]"),
            ("share.coordinator.snapshot.update.records.per.snapshot", "500", "[0,...]"),
        )
    ),
    DraftConfig(Scope.BROKER, "share.fetch.max.fetch.records", None, _INT, "2147483647", "", is_internal=True),
)
#: By edition, the configurations on its page and earlier ones, or those that differ from 4.3.
EDITION_CONFIGS: Mapping[str, tuple[DraftConfig, ...]] = {
    EARLY_ACCESS: _EARLY,
    R1: (_enable_config("share.group."), *_broker_limits("share."), *_GROUPS),
    R2: _PREFIXED,
    R3: (*_PREFIXED, _ISOLATION),
    R4: (*_PREFIXED, _ISOLATION, _RESET),
    R5: (*_PREFIXED, _ISOLATION, _RESET),
}

#: Bounds of 4.3, extended to all values that the editions allow.
_BOUNDS = {"group.share.min.record.lock.duration.ms": "1000", "group.share.max.partition.max.record.locks": "10000"}


#: By edition, the configurations of 4.3 that it does not have; setting them has no effect.
_UNSUPPORTED: Mapping[str, tuple[str, ...]] = {
    EARLY_ACCESS: (
        "group.share.assignment.interval.ms",
        "group.share.assignors",
        "group.share.initialize.retry.interval.ms",
        "group.share.max.assignment.interval.ms",
        "group.share.max.delivery.count.limit",
        "group.share.max.partition.max.record.locks",
        "group.share.max.share.sessions",
        "group.share.min.assignment.interval.ms",
        "group.share.min.delivery.count.limit",
        "group.share.min.partition.max.record.locks",
        "share.coordinator.cached.buffer.max.bytes",
        "share.coordinator.cold.partition.snapshot.interval.ms",
    )
}


def all_configs() -> Iterator[tuple[str, DraftConfig]]:
    """Every configuration of every edition, for the reference page."""
    for edition, configs in EDITION_CONFIGS.items():
        for config in configs:
            yield edition, config


class ConfigDialect:
    """The names of one edition.

    broker_keys: by released name, the keys of a broker with the edition's ranges. unsupported_names: names of 4.3 that
    the edition does not have.
    """

    def __init__(self, edition: str) -> None:
        self.edition = edition
        self.unsupported_names = frozenset(_UNSUPPORTED.get(edition, ()))
        self._rows = EDITION_CONFIGS[edition]
        self._by_name = {(row.scope, row.name): row for row in self._rows}
        self._by_released = {(row.scope, row.released): row for row in self._rows if row.released is not None}
        self._broker_rows = {name: row for (scope, name), row in self._by_released.items() if scope is Scope.BROKER}
        changed_keys = {name: self._config_key(row) for name, row in self._broker_rows.items()}
        self.broker_keys: Mapping[str, ConfigKey] = {**config_keys(Scope.BROKER, EDITION_RELEASE), **changed_keys}

    def extra_keys(self, scope: Scope) -> Mapping[str, ConfigKey]:
        """The edition's configurations without a counterpart in 4.3, by name."""
        rows = (row for row in self._rows if row.scope is scope and row.released is None)
        return {row.name: self._config_key(row) for row in rows}

    def to_released(self, scope: Scope, name: str) -> str:
        """The name of a configuration within the broker.

        Raises: ConfigError for a released name if the edition has another one.
        """
        row = self._by_name.get((scope, name))
        if row is not None:
            return row.released or name
        draft = self._by_released.get((scope, name))
        if draft is not None:
            raise ConfigError(f"{name}: in {self.edition} this is {draft.name}")
        return name

    def to_draft(self, scope: Scope, name: str) -> str:
        """The name of a configuration for clients."""
        row = self._by_released.get((scope, name))
        return name if row is None else row.name

    def check_value(self, scope: Scope, name: str, text: str) -> None:
        """Validate a value by the edition's range. Raises: ConfigError with the edition's name."""
        row = self._by_name.get((scope, name))
        if row is not None:
            self._config_key(row).parse(text)

    def to_released_values(self, given: Mapping[str, str]) -> dict[str, str]:
        """Validate set values, and translate their names to those within the broker."""
        for name, text in given.items():
            self.check_value(Scope.BROKER, name, text)
        return {self.to_released(Scope.BROKER, name): text for name, text in given.items()}

    def broker_defaults(self) -> dict[str, str]:
        """The edition's defaults of a broker, by the names within the broker."""
        defaults = {name: row.default for name, row in self._broker_rows.items() if row.default is not None}
        if not self.unsupported_names:
            return defaults | _BOUNDS
        return defaults | {name: text for name, text in _BOUNDS.items() if name in self.unsupported_names}

    def enables_share_groups(self, given: Mapping[str, str]) -> bool:
        """Whether share groups are on; in 4.0.0 their protocol enables them as well."""
        name = next(row.name for row in self._rows if row.type is _BOOLEAN)
        protocols = given.get("group.coordinator.rebalance.protocols", "").split(",")
        is_protocol = self.edition == EARLY_ACCESS and "share" in {protocol.strip().lower() for protocol in protocols}
        return is_protocol or given.get(name, "true").strip().lower() == "true"

    @staticmethod
    def _config_key(row: DraftConfig) -> ConfigKey:
        released = config_keys(row.scope, EDITION_RELEASE).get(row.released or "")
        if released is not None and not row.valid:
            return structs.replace(released, name=row.name)
        default = row.default
        if default is None and released is not None:
            default = format_value(released.default)
        key = create_key(row.scope, row.name, row.type, default or "null", row.valid)
        return structs.replace(key, internal=row.is_internal)


@cache
def config_dialect(edition: str) -> ConfigDialect | None:
    """The dialect of an edition; None for one with the released names."""
    return ConfigDialect(edition) if edition in EDITION_CONFIGS else None
