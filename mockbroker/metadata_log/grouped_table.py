"""`GroupedTable`: the records of a type in an image, which are found by a property that several may share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any


class GroupedTable(dict[Any, Any]):
    """Records by key. group_of: the property of a record.

    Only these changes keep the index: setting, deleting and `pop` of one key.
    """

    def __init__(self, group_of: Callable[[Any], Hashable]) -> None:
        super().__init__()
        self._group_of = group_of
        self._by_group: dict[Hashable, dict[Any, None]] = {}

    def keys_of(self, group: Hashable) -> list[Any]:
        """The keys of the records with this property."""
        return list(self._by_group.get(group, ()))

    def __setitem__(self, key: Any, record: Any) -> None:
        if key in self:
            self._forget(key)
        super().__setitem__(key, record)
        self._by_group.setdefault(self._group_of(record), {})[key] = None

    def __delitem__(self, key: Any) -> None:
        self._forget(key)
        super().__delitem__(key)

    def pop(self, key: Any, default: Any = None) -> Any:
        """Remove a record and return it, or the default."""
        record = self.get(key, default)
        if key in self:
            del self[key]
        return record

    def _forget(self, key: Any) -> None:
        group = self._group_of(self[key])
        keys = self._by_group[group]
        del keys[key]
        if not keys:
            del self._by_group[group]
