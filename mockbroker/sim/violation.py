"""Exceptions that end a simulation run."""

from __future__ import annotations


class Violation(Exception):  # A finding, not an error of the simulator.
    """An invariant does not hold; the message names the record and what was observed."""


class SeedFailed(Exception):  # The result of one seed, as above.
    """A seed that found a violation, with the steps that led to it."""

    def __init__(self, seed: int, steps: list[str], cause: BaseException) -> None:
        super().__init__(f"seed {seed}, step {len(steps)}: {type(cause).__name__}: {cause}")
        self.seed = seed
        self.steps = steps
        self.cause = cause
