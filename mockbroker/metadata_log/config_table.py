"""`ConfigTable`: the configuration records of an image, which are found by their resource too."""

from __future__ import annotations

from typing import Any

#: Resource type, resource name, and name of the configuration.
ConfigKey = tuple[int, str, str]


class ConfigTable(dict[ConfigKey, Any]):
    """Records by key. Only these changes keep the index: setting, deleting and `pop` of one key."""

    def __init__(self) -> None:
        super().__init__()
        self._by_resource: dict[tuple[int, str], dict[ConfigKey, None]] = {}

    def keys_of(self, resource_type: int, name: str) -> list[ConfigKey]:
        """The keys of one resource."""
        return list(self._by_resource.get((resource_type, name), ()))

    def __setitem__(self, key: ConfigKey, record: Any) -> None:
        super().__setitem__(key, record)
        self._by_resource.setdefault(key[:2], {})[key] = None

    def __delitem__(self, key: ConfigKey) -> None:
        super().__delitem__(key)
        keys = self._by_resource[key[:2]]
        del keys[key]
        if not keys:
            del self._by_resource[key[:2]]

    def pop(self, key: ConfigKey, default: Any = None) -> Any:
        """Remove a record and return it, or the default."""
        record = self.get(key, default)
        if key in self:
            del self[key]
        return record
