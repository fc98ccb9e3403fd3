"""The definitions of Kafka's configuration keys: name, type, default and valid values, read from configs.tsv."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache

import msgspec

from kwire.registry import RELEASES

#: A parsed value: LIST is a list of strings, CLASS and PASSWORD are strings.
Value = int | float | bool | str | list[str] | None


class ConfigError(ValueError):
    """A configuration that Kafka refuses; the message has the key, the value and the valid values."""

    __module__ = "mockbroker"


class Scope(Enum):
    """The resource type that a key configures."""

    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


class ConfigType(Enum):
    """Kafka's types; `wire` is the ConfigType number of DescribeConfigs responses."""

    BOOLEAN = ("BOOLEAN", 1)
    STRING = ("STRING", 2)
    INT = ("INT", 3)
    SHORT = ("SHORT", 4)
    LONG = ("LONG", 5)
    DOUBLE = ("DOUBLE", 6)
    LIST = ("LIST", 7)
    CLASS = ("CLASS", 8)
    PASSWORD = ("PASSWORD", 9)

    def __init__(self, label: str, wire: int) -> None:
        self.label = label
        self.wire = wire


_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_NAMES = {kind.label: kind for kind in ConfigType}
# Texts, not compiled patterns: a broker that starts uses the first one only, and `re` keeps what it has compiled.
_RANGE = r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\](?: or (-?\d+))?"
#: Days, hours, minutes and seconds of ISO-8601, as java.time.Duration reads them; signs are matched to be refused.
_DURATION = r"(?i:P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{1,9}))?S)?)?)"
_THROTTLED = r"\*|\d+:\d+"

ValueCheck = Callable[[Value], bool]


class ConfigKey(msgspec.Struct, frozen=True):
    """One key of Kafka, with its default already typed."""

    scope: Scope
    name: str
    type: ConfigType
    default: Value
    valid: str
    internal: bool
    accepts: ValueCheck

    @property
    def sensitive(self) -> bool:
        """Whether the value is a secret, which is never shown."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """Parse a text; surrounding blanks are ignored, as in Kafka."""
        try:
            value = _parse(self.type, text.strip())
        except ValueError as error:
            raise ConfigError(f"{self.name}: {self._shown(text)} is {error}{self._allowed()}") from None
        self.check(value)
        return value

    def check(self, value: Value) -> None:
        """Raise ConfigError for a typed value that Kafka does not allow."""
        if not self.accepts(value):
            raise ConfigError(f"{self.name}: {self._shown(format_value(value))} is not allowed{self._allowed()}")

    def _shown(self, text: str | None) -> str:
        return "***" if self.sensitive else repr(text)

    def _allowed(self) -> str:
        return f"; valid values: {self.valid}" if self.valid else ""


def format_value(value: Value) -> str | None:
    """Format a typed value as Java does, and as DescribeConfigs prints it: 0.5, true, a,b."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, float):
        return _java_double(value)
    return str(value)


class ConfigKeys(Mapping[str, ConfigKey]):
    """Keys by name, each parsed from its row on first use: a broker that starts uses a tenth of them.

    rows: the columns of each key but the last, by its name.
    """

    def __init__(self, rows: Mapping[str, tuple[str, ...]]) -> None:
        self._rows = rows
        self._parsed: dict[str, ConfigKey] = {}

    def __getitem__(self, name: str) -> ConfigKey:
        key = self._parsed.get(name)
        if key is None:
            key = self._parsed[name] = _parse_row(self._rows[name])
        return key

    def __contains__(self, name: object) -> bool:
        # The method of Mapping would parse the key.
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class ConfigValues(dict[str, Value]):
    """The values of keys by name: those that were set, and the defaults of others once they are used.

    known: all keys. standard: defaults that differ from those of the keys.
    """

    def __init__(self, known: Mapping[str, ConfigKey], standard: Mapping[str, Value]) -> None:
        self.known = known
        self._standard = standard

    def __missing__(self, name: str) -> Value:
        default = self._standard[name] if name in self._standard else self.known[name].default
        self[name] = default
        return default

    def with_changes(self, changes: Mapping[str, Value]) -> ConfigValues:
        """A copy with other values."""
        changed = ConfigValues(self.known, self._standard)
        changed.update(self)
        changed.update(changes)
        return changed


@cache
def config_keys(scope: Scope, release: str = RELEASES[0]) -> Mapping[str, ConfigKey]:
    """All keys of a scope in a release of Kafka by name, in the order of the file."""
    older = RELEASES[RELEASES.index(release) :]
    return ConfigKeys({row[1]: row[:-1] for row in _read_rows(scope) if not row[-1] or row[-1] in older})


@cache
def _read_rows(scope: Scope) -> tuple[tuple[str, ...], ...]:
    """The rows of a scope; the last column is the release that was the first of the key, empty if all have it."""
    table = pkgutil.get_data("mockbroker.config", "configs.tsv")
    assert table is not None
    begin = f"{scope.value}\t"
    return tuple(tuple(line.split("\t")) for line in table.decode("utf-8").splitlines()[1:] if line.startswith(begin))


def parse_duration_ms(text: str) -> int | None:
    """Milliseconds of an ISO-8601 duration such as P1DT2H or PT0.5S; None if it is invalid, or negative."""
    match = re.fullmatch(_DURATION, text)
    if match is None:
        return None
    days, hours, minutes, seconds, fraction = match.groups()
    whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    return whole * 1000 + int((fraction or "0").ljust(9, "0")[:3])


def create_key(scope: Scope, name: str, type_: ConfigType, default: str, valid: str) -> ConfigKey:
    """Create a key that Kafka 4.3 does not have, from the columns of its list of keys."""
    return _parse_row((scope.value, name, type_.label, default, valid, "MEDIUM", "false"))


def _parse_row(row: tuple[str, ...]) -> ConfigKey:
    scope, name, kind, default, valid, _importance, internal = row
    type_ = _NAMES[kind]
    return ConfigKey(
        scope=Scope(scope),
        name=name,
        type=type_,
        default=_default(type_, default),
        valid=valid,
        internal=internal == "true",
        accepts=_parse_valid_values(type_, valid),
    )


def _default(kind: ConfigType, text: str) -> Value:
    if text in ("null", "(required)"):
        return None
    if kind is ConfigType.LIST:
        return _parse(kind, text.removeprefix("[").removesuffix("]"))
    # Kafka's table prints a class as Java's Class.toString does.
    return _parse(kind, text.removeprefix("class ") if kind is ConfigType.CLASS else text)


def _parse(kind: ConfigType, text: str) -> Value:
    if kind is ConfigType.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ValueError("neither true nor false")
        return text.lower() == "true"
    if kind in _BITS:
        # Java reads an optional sign and decimal digits, nothing else (int() would take "1_000").
        limit = 1 << _BITS[kind] - 1
        if not re.fullmatch(r"[+-]?[0-9]{1,20}", text) or not -limit <= int(text) < limit:
            raise ValueError(f"not a number of type {kind.label}")
        return int(text)
    if kind is ConfigType.DOUBLE:
        if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[dDfF]?", text):
            raise ValueError("not a number of type DOUBLE")
        return float(text.rstrip("dDfF"))
    if kind is ConfigType.LIST:
        # KIP-1161: duplicates are removed.
        return list(dict.fromkeys(re.split(r"\s*,\s*", text))) if text else []
    return text


@cache
def _parse_valid_values(kind: ConfigType, valid: str) -> ValueCheck:
    """The check that a `valid` column describes; forms that Kafka checks elsewhere accept everything."""
    if match := re.fullmatch(_RANGE, valid):
        return _in_range(*match.groups())
    if valid.startswith("[partitionId]"):
        return lambda value: isinstance(value, list) and all(re.fullmatch(_THROTTLED, item) for item in value)
    if valid.startswith("[latest, earliest, by_duration"):
        return _is_offset_reset
    folded = valid.startswith("(case insensitive) ")
    listed = valid.removeprefix("(case insensitive) ")
    if listed.startswith("["):
        return _one_of(frozenset(listed[1:-1].split(", ")), folded=folded, many=kind is ConfigType.LIST)
    if valid == "non-empty string":
        return lambda value: value is None or bool(value)
    return lambda value: True


def _in_range(low: str, high: str | None, extra: str | None) -> ValueCheck:
    lowest, highest = float(low), float(high) if high else float("inf")
    if extra is not None:
        extra_value = int(extra)
        return lambda value: value == extra_value or (isinstance(value, int | float) and lowest <= value <= highest)
    return lambda value: value is None or (isinstance(value, int | float) and lowest <= value <= highest)


def _one_of(allowed: frozenset[str], *, folded: bool, many: bool) -> ValueCheck:
    if many:
        return lambda value: isinstance(value, list) and set(value) <= allowed
    if folded:
        lowered = frozenset(item.lower() for item in allowed)
        return lambda value: isinstance(value, str) and value.lower() in lowered
    return lambda value: value in allowed


def _is_offset_reset(value: Value) -> bool:
    if not isinstance(value, str):
        return False
    if value in ("latest", "earliest"):
        return True
    strategy, colon, duration = value.partition(":")
    return strategy == "by_duration" and bool(colon) and parse_duration_ms(duration) is not None


def _java_double(value: float) -> str:
    """Java uses an exponent from ten million upwards and below a thousandth; Python has other limits."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal

    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{fraction}E{exponent + len(digits) - 1}"
