"""Client quotas: stored by entity, and found by filters. Source: Kafka's ClientQuotaControlManager."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import IntEnum

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.changed_keys import ChangedKeys

USER, CLIENT_ID, IP = "user", "client-id", "ip"

#: The largest value of a quota; None where any size and fractions are allowed.
_LONG_MAX, _INT_MAX = float(2**63 - 1), float(2**31 - 1)
_CLIENT_KEYS: Mapping[str, float | None] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_IP_KEYS: Mapping[str, float | None] = {"connection_creation_rate": _INT_MAX}
#: Kafka accepts a number as whole if it differs by at most this.
_WHOLE_WITHIN = 1e-6
_IP_V4 = re.compile(r"\d{1,10}(\.\d{1,10}){0,3}")

#: Entity types with names, sorted by type; the name is None for the default entity.
QuotaEntity = tuple[tuple[str, str | None], ...]


class MatchType(IntEnum):
    """How a component of a filter matches; the numbers are the wire's."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class FilterComponent(msgspec.Struct, frozen=True):
    """The filter for one entity type; name: of an exact match only."""

    entity_type: str
    match: int
    name: str | None


class QuotaChange(msgspec.Struct, frozen=True):
    """A new value of a key, None to remove it."""

    key: str
    value: float | None


def make_entity(names: Mapping[str, str | None]) -> QuotaEntity:
    """The entity of these types and names."""
    return tuple(sorted(names.items(), key=lambda item: item[0]))


class ClientQuotas:
    """All quotas of the cluster. changed: the entities. on_change: is called after each change."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self._values: dict[QuotaEntity, dict[str, float]] = {}
        self._levels: dict[str, Counter[tuple[str, ...]]] = {}
        self.changed: ChangedKeys[QuotaEntity] = ChangedKeys()

    def apply_changes(self, entity: QuotaEntity, changes: Sequence[QuotaChange]) -> dict[str, float]:
        """The values of an entity after some checked changes; nothing is stored.

        Raises: INVALID_REQUEST. Removing an unknown quota is no error, not even with an invalid name.
        """
        if len({change.key for change in changes}) < len(changes):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a quota key is listed twice")
        keys = _quota_keys(dict(entity))
        after = dict(self._values.get(entity, {}))
        for change in changes:
            if change.value is None:
                after.pop(change.key, None)
            else:
                _check_value(keys, change.key, change.value)
                after[change.key] = change.value
        return after

    def values_of(self, entity: QuotaEntity) -> Mapping[str, float]:
        """The values of exactly this entity."""
        return self._values.get(entity, {})

    def set_quotas(self, entity: QuotaEntity, values: Mapping[str, float]) -> None:
        """Replace the values of an entity; without values the entity is removed."""
        before = self._values.get(entity, {})
        if values:
            self._values[entity] = dict(values)
        else:
            self._values.pop(entity, None)
        self.changed.add(entity)
        level = tuple(kind for kind, _ in entity)
        for key in values.keys() ^ before.keys():
            self._levels.setdefault(key, Counter())[level] += 1 if key in values else -1
        self._on_change()

    @property
    def limits_clients(self) -> bool:
        """Whether any user or client id has a quota; those of addresses are for connections."""
        return any(self.levels_of(key) for key in _CLIENT_KEYS)

    def find_value(self, entity: QuotaEntity, key: str) -> float | None:
        """The value of an entity for a key, or None."""
        values = self._values.get(entity)
        return None if values is None else values.get(key)

    def levels_of(self, key: str) -> AbstractSet[tuple[str, ...]]:
        """The types of all entities with a value for a key, as ("client-id", "user")."""
        return {level for level, count in self._levels.get(key, {}).items() if count}

    def find_entities(
        self, components: Sequence[FilterComponent], *, strict: bool
    ) -> list[tuple[QuotaEntity, Mapping[str, float]]]:
        """The entities that match a filter.

        strict: an entity with types that the filter does not contain does not match.
        Raises: INVALID_REQUEST, UNSUPPORTED_VERSION for an unknown type.
        """
        by_type = _check_filter(components)
        return [
            (entity, values)
            for entity, values in self._values.items()
            if _matches_filter(dict(entity), by_type) and not (strict and len(entity) != len(by_type))
        ]


def _check_filter(components: Sequence[FilterComponent]) -> dict[str, FilterComponent]:
    """The filter by type, checked in Kafka's order."""
    by_type: dict[str, FilterComponent] = {}
    for component in components:
        kind, match, name = component.entity_type, component.match, component.name
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in by_type:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once.")
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if match not in MatchType._value2member_map_:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {match}")
        if (name is None) == (match == MatchType.EXACT):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"match type {match} does not go with the name {name!r}")
        by_type[kind] = component
    if IP in by_type and len(by_type) > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an ip does not go with a user or a client id")
    return by_type


def _matches_filter(entity: Mapping[str, str | None], by_type: Mapping[str, FilterComponent]) -> bool:
    return all(
        kind in entity and (component.match == MatchType.SPECIFIED or entity[kind] == component.name)
        for kind, component in by_type.items()
    )


def _quota_keys(entity: Mapping[str, str | None]) -> Mapping[str, float | None]:
    """The quotas that an entity can have.

    Raises: INVALID_REQUEST for types that are unknown or cannot be combined, and for invalid names.
    """
    if not entity:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
    if IP not in entity:
        return _CLIENT_KEYS
    if len(entity) > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an ip does not go with a user or a client id")
    address = entity[IP]
    if address is not None and not _is_address(address):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{address} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _is_address(text: str) -> bool:
    """Return whether Java would parse this as an address without a name server, which the mock does not use."""
    if text.lower() == "localhost":
        return True
    if _IP_V4.fullmatch(text):
        # As inet_aton: each part is a byte, but the last one fills the remaining bytes.
        *parts, last = (int(part) for part in text.split("."))
        return all(part < 1 << 8 for part in parts) and last < 1 << 8 * (4 - len(parts))
    try:
        ipaddress.IPv6Address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _check_value(keys: Mapping[str, float | None], key: str, value: float) -> None:
    if key not in keys:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {key}")
    if value <= 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Quota {key} must be greater than 0")
    most = keys[key]
    if most is not None and value > most:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Proposed value for {key} is too large: {value}")
    if most is not None and value % 1 > _WHOLE_WITHIN:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} cannot be a fractional value: {value}")
