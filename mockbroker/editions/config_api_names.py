"""The configuration APIs in an edition of KIP-932 that has other names for some configurations."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from msgspec import structs

from kwire.error_codes import ErrorCode
from mockbroker.config.keys import ConfigError, Scope, format_value
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.config_entries import ConfigEntry, Synonym, describe_entries
from mockbroker.state.metadata.configs import Configs, ConfigSource, Resource, ResourceKind

if TYPE_CHECKING:
    from mockbroker.config.config_dialect import ConfigDialect

_SCOPES: dict[int, Scope] = {ResourceKind.BROKER: Scope.BROKER, ResourceKind.GROUP: Scope.GROUP}


class ConfigApiNames:
    """Translates names and defaults between the configuration APIs of an edition and the released ones."""

    def __init__(self, dialect: ConfigDialect) -> None:
        self._dialect = dialect

    def to_released_names(self, resource_type: int, configs: Iterable[tuple[str, str | None]]) -> list[str]:
        """The released names of the configurations of a request, given as (name, value).

        Raises: INVALID_CONFIG, or INVALID_REQUEST for a broker, where the edition has another name, or refuses the
        value.
        """
        dialect, scope = self._dialect, _SCOPES.get(resource_type)
        if scope is None:
            return [name for name, _ in configs]
        try:
            names = list(configs)
            for name, value in names:
                if scope is Scope.BROKER and name in dialect.extra_keys(scope):
                    raise ConfigError(f"{name}: this configuration cannot be changed while the broker runs")
                if value is not None:
                    dialect.check_value(scope, name, value)
            return [dialect.to_released(scope, name) for name, _ in names]
        except ConfigError as error:
            code = ErrorCode.INVALID_REQUEST if scope is Scope.BROKER else ErrorCode.INVALID_CONFIG
            raise KafkaError(code, str(error)) from None

    def describe_entries(
        self, configs: Configs, resource: Resource, names: Collection[str] | None, node_id: int
    ) -> list[ConfigEntry]:
        """The entries of a resource by the edition's names, including those that 4.3 does not have.

        names: the requested names, None or empty for all. node_id: of the broker that describes it.
        """
        dialect, scope = self._dialect, _SCOPES.get(resource.kind)
        entries = describe_entries(configs, resource, None, node_id)
        if scope is not None:
            hidden = dialect.extra_keys(scope).keys() | dialect.unsupported_names
            entries = [self._rename_entry(entry, scope) for entry in entries if entry.name not in hidden]
            if resource.name:
                entries += self._extra_entries(configs, resource, scope)
        requested = frozenset(names or ())
        return [entry for entry in entries if not requested or entry.name in requested]

    def _rename_entry(self, entry: ConfigEntry, scope: Scope) -> ConfigEntry:
        dialect, defaults = self._dialect, self._dialect.broker_defaults()

        def rename_synonym(synonym: Synonym) -> Synonym:
            is_default = synonym.source is ConfigSource.DEFAULT
            value = defaults.get(synonym.name, synonym.value) if is_default else synonym.value
            draft_name = dialect.to_draft(scope, synonym.name)
            name = draft_name if draft_name != synonym.name else dialect.to_draft(Scope.BROKER, synonym.name)
            return Synonym(name, value, synonym.source)

        synonyms = tuple(rename_synonym(synonym) for synonym in entry.synonyms)
        return structs.replace(entry, name=dialect.to_draft(scope, entry.name), synonyms=synonyms)

    def _extra_entries(self, configs: Configs, resource: Resource, scope: Scope) -> list[ConfigEntry]:
        is_group = scope is Scope.GROUP
        given = configs.overrides(resource) if is_group else configs.static.given
        source = ConfigSource.GROUP if is_group else ConfigSource.STATIC_BROKER
        entries = []
        for name, key in self._dialect.extra_keys(scope).items():
            if key.internal and name not in given:
                continue
            synonyms = [Synonym(name, format_value(key.default), ConfigSource.DEFAULT)]
            if name in given:
                synonyms.insert(0, Synonym(name, given[name], source))
            first = synonyms[0]
            kind = key.type.wire
            entries.append(ConfigEntry(name, first.value, first.source, kind, not is_group, False, tuple(synonyms)))
        return entries
