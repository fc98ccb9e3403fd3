"""Feature levels: what Kafka 4.3.0 supports, and what a cluster that it formats has finalized."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from mockbroker.config_keys import ConfigError

#: Name -> lowest and highest level. Source: the ApiVersions v4 answer of a 4.3.0 broker.
SUPPORTED: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 30),
        "share.version": (0, 1),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
    }
)

#: Levels of a freshly formatted cluster; kraft.version is listed only after UpdateFeatures has raised it.
FINALIZED: Mapping[str, int] = MappingProxyType(
    {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "metadata.version": 30,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
)


def finalize(settings: Iterable[str] = ()) -> dict[str, int]:
    """Finalized levels after settings such as `share.version=0`; a level 0 is not listed, as in Kafka."""
    levels = dict(FINALIZED)
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in SUPPORTED:
            raise ConfigError(f"feature {name!r} is not known; known are {', '.join(SUPPORTED)}")
        low, high = SUPPORTED[name]
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise ConfigError(f"feature {name}: level {text!r} is not allowed; valid values: [{low},...,{high}]")
        if name != "kraft.version":
            levels[name] = int(text)
    return {name: level for name, level in levels.items() if level > 0}
