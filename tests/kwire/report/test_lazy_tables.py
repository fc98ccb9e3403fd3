"""Tables that several threads use are built once, when they are first used."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest

from kwire.report.lazy_tables import LazyTable, LazyTables


def test_a_table_is_built_when_it_is_first_used() -> None:
    built: list[str] = []

    def build(name: str) -> str:
        built.append(name)
        return name

    tables = LazyTables({name: partial(build, name) for name in ("a", "b")})

    assert (list(tables), len(tables), "a" in tables, "c" in tables) == (["a", "b"], 2, True, False)
    assert built == []
    assert tables["b"] == tables["b"] == "b"
    assert built == ["b"]


def test_threads_that_use_a_table_at_the_same_time_build_it_once() -> None:
    threads, built = 4, Counter[str]()
    start = Barrier(threads)

    def build() -> object:
        built["shared"] += 1
        return object()

    shared = LazyTable(build)
    tables = LazyTables({str(number): shared for number in range(threads)})

    def use(name: str) -> object:
        start.wait(timeout=60)
        return tables[name]

    with ThreadPoolExecutor(threads) as pool:
        results = set(pool.map(use, tables))

    assert (len(results), built) == (1, {"shared": 1})


def test_a_table_whose_building_failed_is_built_again() -> None:
    answers = iter([False, True])

    def build() -> str:
        if not next(answers):
            raise OSError("no space left")
        return "built"

    tables = LazyTables({"a": build})
    with pytest.raises(OSError, match="no space left"):
        tables["a"]

    assert tables["a"] == "built"
