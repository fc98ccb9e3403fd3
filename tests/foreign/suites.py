"""A suite of tests that another project publishes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tests.foreign.results import Result

PINNED_FOLDER = Path(__file__).parent / "pinned"


class Runner(Protocol):
    """Runs tests one after another."""

    def run(self, selector: str) -> Iterator[Result]:
        """Run the tests of a selector. Yields: the results, as the tests end."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


class Suite(Protocol):
    """A suite of tests with a pinned list."""

    name: str

    def selectors(self, names: Sequence[str]) -> list[str]:
        """The selectors that run the tests of these names, each once and in this order."""
        ...

    def prepare(self) -> AbstractContextManager[Runner]:
        """Fetch and compile the suite. Raises: RuntimeError if that fails, OSError if a program is missing."""
        ...
