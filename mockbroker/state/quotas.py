"""Client quotas: who gets how much, kept by entity, and found by filters. Source: Kafka's ClientQuotaControlManager."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

USER, CLIENT_ID, IP = "user", "client-id", "ip"

#: What a quota's value may be at most; None where it may have a fraction and any size.
_LONG_MAX, _INT_MAX = float(2**63 - 1), float(2**31 - 1)
_CLIENT_KEYS: Mapping[str, float | None] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_IP_KEYS: Mapping[str, float | None] = {"connection_creation_rate": _INT_MAX}
#: Kafka takes a number for a whole one that is this near to it.
_WHOLE_WITHIN = 1e-6
_IP_V4 = re.compile(r"\d{1,10}(\.\d{1,10}){0,3}")

#: Entity type -> name, None for the default; the same entity has one order of types.
Entity = tuple[tuple[str, str | None], ...]


class Match(IntEnum):
    """How a component of a filter matches; the numbers are the wire's."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class Component(msgspec.Struct, frozen=True):
    """What a filter asks of one type; name: of an exact match only."""

    entity_type: str
    match: int
    name: str | None


class QuotaChange(msgspec.Struct, frozen=True):
    """A new value of a key, None to remove it."""

    key: str
    value: float | None


def entity_of(names: Mapping[str, str | None]) -> Entity:
    """The entity of these types and names."""
    return tuple(sorted(names.items(), key=lambda item: item[0]))


class Quotas:
    """All quotas of the cluster. changes: how often anything was changed."""

    def __init__(self) -> None:
        self._values: dict[Entity, dict[str, float]] = {}
        self.changes = 0

    def altered(self, entity: Entity, changes: Sequence[QuotaChange]) -> dict[str, float]:
        """The values of an entity after some changes, all checked; nothing is stored.

        Raises: INVALID_REQUEST. Removing what is not there is no error, not even by a name that no quota has.
        """
        if len({change.key for change in changes}) < len(changes):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a quota key comes twice")
        keys = _keys_for(dict(entity))
        after = dict(self._values.get(entity, {}))
        for change in changes:
            if change.value is None:
                after.pop(change.key, None)
            else:
                _check_value(keys, change.key, change.value)
                after[change.key] = change.value
        return after

    def put(self, entity: Entity, values: Mapping[str, float]) -> None:
        """Replace what an entity has; nothing left means nothing kept."""
        if values:
            self._values[entity] = dict(values)
        else:
            self._values.pop(entity, None)
        self.changes += 1

    def find(self, components: Sequence[Component], *, strict: bool) -> list[tuple[Entity, Mapping[str, float]]]:
        """The entities that match a filter.

        strict: an entity with types that the filter does not name is no match.
        Raises: INVALID_REQUEST, UNSUPPORTED_VERSION for a type that does not exist.
        """
        wanted = _checked(components)
        return [
            (entity, values)
            for entity, values in self._values.items()
            if _matches(dict(entity), wanted) and not (strict and len(entity) != len(wanted))
        ]


def _checked(components: Sequence[Component]) -> dict[str, Component]:
    """The filter by type, checked in Kafka's order."""
    wanted: dict[str, Component] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in wanted:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once.")
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if component.match not in Match._value2member_map_:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match}")
        if (component.name is None) == (component.match == Match.EXACT):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"match type {component.match} does not go with the name {component.name!r}"
            )
        wanted[kind] = component
    if IP in wanted and len(wanted) > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an ip does not go with a user or a client id")
    return wanted


def _matches(entity: Mapping[str, str | None], wanted: Mapping[str, Component]) -> bool:
    return all(
        kind in entity and (component.match == Match.SPECIFIED or entity[kind] == component.name)
        for kind, component in wanted.items()
    )


def _keys_for(entity: Mapping[str, str | None]) -> Mapping[str, float | None]:
    """The quotas that an entity can have.

    Raises: INVALID_REQUEST for types that do not exist or do not go together, and for wrong names.
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
    """Whether Java would take this for an address without asking a name server, which a mock does not do."""
    if text.lower() == "localhost":
        return True
    if _IP_V4.fullmatch(text):
        # As inet_aton: each part is a byte, but the last one fills what is left.
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
