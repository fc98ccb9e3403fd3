"""Tables that are built when they are first used, by any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")

TableBuilder = Callable[[], T]


class LazyTable(Generic[T]):
    """One table: calling it builds it the first time, while other threads that call it wait."""

    def __init__(self, build: TableBuilder[T]) -> None:
        self._build = build
        self._lock = Lock()
        self._built: list[T] = []

    def __call__(self) -> T:
        """The table."""
        with self._lock:
            if not self._built:
                self._built.append(self._build())
            return self._built[0]


class LazyTables(Mapping[str, T]):
    """Tables by name. Several threads build several tables at the same time, each of them once.

    Args: builders: by name of the table; a builder may use other tables, but no two may use each other.
    """

    def __init__(self, builders: Mapping[str, TableBuilder[T]]) -> None:
        self._tables = {name: LazyTable(build) for name, build in builders.items()}

    def __getitem__(self, name: str) -> T:
        return self._tables[name]()

    def __contains__(self, name: object) -> bool:
        # The method of Mapping would build the table.
        return name in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)
