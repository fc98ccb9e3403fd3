"""The configuration APIs in an edition of KIP-932 that calls some configurations otherwise."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from kwire.error_codes import ErrorCode
from kwire.messages.alter_configs import AlterableConfig as Replaced
from kwire.messages.incremental_alter_configs import AlterableConfig
from mockbroker.config_keys import ConfigError, Scope, to_text
from mockbroker.kafka_error import KafkaError
from mockbroker.state.config_entries import ConfigEntry, Synonym
from mockbroker.state.configs import Resource, ResourceKind, Source

if TYPE_CHECKING:
    from mockbroker.config import Dialect
    from mockbroker.context import Context

_SCOPES: dict[int, Scope] = {ResourceKind.BROKER: Scope.BROKER, ResourceKind.GROUP: Scope.GROUP}
C = TypeVar("C", AlterableConfig, Replaced)


def by_released_names(resource_type: int, configs: Sequence[C], ctx: Context) -> Sequence[C]:
    """The configurations of a request by the names that they have within the broker.

    Raises: INVALID_CONFIG, or INVALID_REQUEST for a broker, where the edition has another name, or refuses the value.
    """
    dialect, scope = ctx.cluster.config.dialect, _SCOPES.get(resource_type)
    if dialect is None or scope is None:
        return configs
    try:
        for config in configs:
            if scope is Scope.BROKER and config.name in dialect.extra_keys(scope):
                raise ConfigError(f"{config.name}: this configuration cannot be changed while the broker runs")
            if config.value is not None:
                dialect.check(scope, config.name, config.value)
        return [structs.replace(config, name=dialect.to_released(scope, config.name)) for config in configs]
    except ConfigError as error:
        code = ErrorCode.INVALID_REQUEST if scope is Scope.BROKER else ErrorCode.INVALID_CONFIG
        raise KafkaError(code, str(error)) from None


def described(
    entries: Sequence[ConfigEntry], resource: Resource, names: Collection[str] | None, ctx: Context
) -> list[ConfigEntry]:
    """All entries of a resource by the edition's names, with those that 4.3 has none for; only the names asked for."""
    dialect, scope = ctx.cluster.config.dialect, _SCOPES.get(resource.kind)
    shown = list(entries)
    if dialect is not None and scope is not None:
        extra = dialect.extra_keys(scope)
        hidden = extra.keys() | dialect.lacking
        shown = [_renamed(entry, dialect, scope) for entry in entries if entry.name not in hidden]
        if resource.name:
            shown += _extras(dialect, resource, scope, ctx)
    wanted = frozenset(names or ())
    return [entry for entry in shown if not wanted or entry.name in wanted]


def _renamed(entry: ConfigEntry, dialect: Dialect, scope: Scope) -> ConfigEntry:
    defaults = dialect.defaults()

    def named(synonym: Synonym) -> Synonym:
        value = defaults.get(synonym.name, synonym.value) if synonym.source is Source.DEFAULT else synonym.value
        own = dialect.to_draft(scope, synonym.name)
        name = own if own != synonym.name else dialect.to_draft(Scope.BROKER, synonym.name)
        return Synonym(name, value, synonym.source)

    name, synonyms = dialect.to_draft(scope, entry.name), tuple(named(one) for one in entry.synonyms)
    return structs.replace(entry, name=name, synonyms=synonyms)


def _extras(dialect: Dialect, resource: Resource, scope: Scope, ctx: Context) -> list[ConfigEntry]:
    is_group = scope is Scope.GROUP
    given = ctx.cluster.configs.given(resource) if is_group else ctx.cluster.config.given
    own = Source.GROUP if is_group else Source.STATIC_BROKER
    entries = []
    for name, key in dialect.extra_keys(scope).items():
        if key.internal and name not in given:
            continue
        default = to_text(key.default)
        behind = [Synonym(name, default, Source.DEFAULT)]
        if name in given:
            behind.insert(0, Synonym(name, given[name], own))
        entries.append(
            ConfigEntry(name, behind[0].value, behind[0].source, key.type.wire, not is_group, False, tuple(behind))
        )
    return entries
