"""Typed access to effective configuration."""

from __future__ import annotations

from collections.abc import Mapping

#: Effective values by Kafka's configuration names, of a topic, a group or the broker.
Settings = Mapping[str, object]


def read_int(settings: Settings, name: str) -> int:
    """The value of a configuration that is a whole number."""
    value = settings[name]
    assert isinstance(value, int)
    return value
