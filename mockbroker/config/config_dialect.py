"""`ConfigDialect`: configuration names of an edition that does not have the released ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mockbroker.config.keys import ConfigKey, Scope


class ConfigDialect(Protocol):
    """Configuration names, ranges and defaults of an edition of KIP-932 (`mockbroker/editions/configs.py`)."""

    broker_keys: Mapping[str, ConfigKey]
    unsupported_names: frozenset[str]

    def extra_keys(self, scope: Scope) -> Mapping[str, ConfigKey]:
        """Configurations that 4.3 does not have."""

    def to_released_values(self, given: Mapping[str, str]) -> dict[str, str]:
        """The set values, by the names of 4.3."""

    def broker_defaults(self) -> dict[str, str]:
        """Defaults that differ, by the names of 4.3."""

    def enables_share_groups(self, given: Mapping[str, str]) -> bool:
        """Whether share groups are enabled."""

    def to_released(self, scope: Scope, name: str) -> str:
        """The name of 4.3 for a name of the edition."""

    def to_draft(self, scope: Scope, name: str) -> str:
        """The name of the edition for a name of 4.3."""

    def check_value(self, scope: Scope, name: str, text: str) -> None:
        """Refuse a value that is not allowed."""
