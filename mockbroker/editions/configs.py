"""Configurations of share groups as each revision of KIP-932 named and bounded them.

Within the broker everything has its released name. A dialect gives those that a revision has one for the revision's own
name at the borders: properties, `--set`, and the configuration APIs. What a revision has no name for keeps the one that
it has in Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from msgspec import structs

from mockbroker.config_keys import ConfigError, ConfigKey, ConfigType, Scope, custom_key, keys

_BOOLEAN, _INT, _STRING, _LIST = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.STRING, ConfigType.LIST
EARLY_ACCESS = "4.0-early-access"
R1, R2, R3, R4, R5 = "kip932-r1", "kip932-r2", "kip932-r3", "kip932-r4", "kip932-r5"


class DraftConfig(NamedTuple):
    """One configuration of a revision.

    released: its name in 4.3, or None where there is none. default: as it is here, None for that of 4.3. page_default:
    what the page says instead. is_internal: it is shown to nobody unless it has been set.
    """

    scope: Scope
    name: str
    released: str | None
    type: ConfigType
    default: str | None
    valid: str
    page_default: str | None = None
    is_internal: bool = False


def _enable(prefix: str, *, is_internal: bool = False) -> DraftConfig:
    # The pages have it false "while the feature is being developed"; whoever picks an edition has switched it on.
    return DraftConfig(Scope.BROKER, f"{prefix}enable", None, _BOOLEAN, "true", "", "false", is_internal)


def _brokers(prefix: str) -> tuple[DraftConfig, ...]:
    rows = (
        ("delivery.count.limit", "delivery.count.limit", "5", "[2,...,10]"),
        ("record.lock.duration.ms", "record.lock.duration.ms", "30000", "[1000,...,60000]"),
        ("record.lock.duration.max.ms", "max.record.lock.duration.ms", "60000", "[1000,...,3600000]"),
        ("record.lock.partition.limit", "partition.max.record.locks", "200", "[100,...,10000]"),
    )
    return tuple(
        DraftConfig(Scope.BROKER, f"{prefix}{name}", f"group.share.{released}", _INT, default, valid)
        for name, released, default, valid in rows
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
_ISOLATION = DraftConfig(
    *(Scope.GROUP, "group.share.isolation.level", "share.isolation.level"),
    *(_STRING, None, "[read_committed, read_uncommitted]"),
)
_RESET = DraftConfig(
    *(Scope.GROUP, "group.share.auto.offset.reset", "share.auto.offset.reset"),
    *(_STRING, None, "[latest, earliest]"),
)

_PREFIXED = (_enable("group.share."), *_brokers("group.share."), *_GROUP_LIMITS, *_GROUPS)
#: Source: GroupCoordinatorConfig, ShareGroupConfig and ShareCoordinatorConfig of 4.0.0; what is not here is as in 4.3.
_EARLY = (
    _enable("group.share.", is_internal=True),
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
#: By edition, what its page and those before it list, or what it has otherwise than 4.3.
TABLE: Mapping[str, tuple[DraftConfig, ...]] = {
    EARLY_ACCESS: _EARLY,
    R1: (_enable("share.group."), *_brokers("share."), *_GROUPS),
    R2: _PREFIXED,
    R3: (*_PREFIXED, _ISOLATION),
    R4: (*_PREFIXED, _ISOLATION, _RESET),
    R5: (*_PREFIXED, _ISOLATION, _RESET),
}

#: Bounds that 4.3 lets nobody pass, wide enough for all that the editions allow.
_BOUNDS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.max.partition.max.record.locks": "10000",
}


#: By edition, what 4.3 knows and it does not; whoever sets that means nothing by it.
_LACKING: Mapping[str, frozenset[str]] = {
    EARLY_ACCESS: frozenset(
        {
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
        }
    )
}


def rows() -> Iterator[tuple[str, DraftConfig]]:
    """Every configuration of every edition, for the reference."""
    for edition, configs in TABLE.items():
        for config in configs:
            yield edition, config


class ConfigDialect:
    """The names of one edition.

    broker_keys: by released name, the keys of a broker with the edition's ranges. lacking: names that it does not know.
    """

    def __init__(self, edition: str) -> None:
        self.edition = edition
        self.lacking = _LACKING.get(edition, frozenset())
        self._by_name = {(row.scope, row.name): row for row in TABLE[edition]}
        self._by_released = {(row.scope, row.released): row for row in TABLE[edition] if row.released is not None}
        self.broker_keys: Mapping[str, ConfigKey] = {
            **keys(Scope.BROKER),
            **{name: self._key(row) for (scope, name), row in self._by_released.items() if scope is Scope.BROKER},
        }

    def extra_keys(self, scope: Scope) -> Mapping[str, ConfigKey]:
        """The edition's configurations that 4.3 has none for, by name."""
        return {row.name: self._key(row) for row in TABLE[self.edition] if row.scope is scope and row.released is None}

    def to_released(self, scope: Scope, name: str) -> str:
        """The name that a configuration has within the broker.

        Raises: ConfigError for a released name that the edition has another one for.
        """
        row = self._by_name.get((scope, name))
        if row is not None:
            return row.released or name
        draft = self._by_released.get((scope, name))
        if draft is not None:
            raise ConfigError(f"{name}: in {self.edition} this is {draft.name}")
        return name

    def to_draft(self, scope: Scope, name: str) -> str:
        """The name that clients know a configuration by."""
        row = self._by_released.get((scope, name))
        return name if row is None else row.name

    def check(self, scope: Scope, name: str, text: str) -> None:
        """Refuse a value that the edition does not allow. Raises: ConfigError with the edition's name for it."""
        row = self._by_name.get((scope, name))
        if row is not None:
            self._key(row).parse(text)

    def broker_texts(self, given: Mapping[str, str]) -> dict[str, str]:
        """What was set, checked, by the names within the broker."""
        for name, text in given.items():
            self.check(Scope.BROKER, name, text)
        return {self.to_released(Scope.BROKER, name): text for name, text in given.items()}

    def defaults(self) -> dict[str, str]:
        """What a broker of the edition has where nothing is set, by the names within the broker."""
        own = {
            row.released: row.default
            for row in TABLE[self.edition]
            if row.scope is Scope.BROKER and row.released is not None and row.default is not None
        }
        bounds = {name: text for name, text in _BOUNDS.items() if not self.lacking or name in self.lacking}
        return own | bounds

    def enables_share_groups(self, given: Mapping[str, str]) -> bool:
        """Whether share groups are on; in 4.0.0 their protocol is another way to switch them on."""
        name = next(row.name for row in TABLE[self.edition] if row.type is _BOOLEAN)
        protocols = given.get("group.coordinator.rebalance.protocols", "").split(",")
        is_protocol = self.edition == EARLY_ACCESS and "share" in {protocol.strip().lower() for protocol in protocols}
        return is_protocol or given.get(name, "true").strip().lower() == "true"

    @staticmethod
    def _key(row: DraftConfig) -> ConfigKey:
        released = keys(row.scope).get(row.released or "")
        if released is not None and not row.valid:
            return structs.replace(released, name=row.name)
        default = row.default
        if default is None and released is not None:
            default = released.text(released.default)
        key = custom_key(row.scope, row.name, row.type, default or "null", row.valid)
        return structs.replace(key, internal=row.is_internal)


@cache
def dialect_of(edition: str) -> ConfigDialect | None:
    """The dialect of an edition; None for one that has the released names."""
    return ConfigDialect(edition) if edition in TABLE else None
