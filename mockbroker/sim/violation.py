"""What a simulation ends with when something is not as it must be."""

from __future__ import annotations


class Violation(Exception):  # It is what was found, not what went wrong in finding it.
    """An invariant does not hold; the message says of which record, and what was seen."""


class SeedFailed(Exception):  # As above: the outcome of one seed.
    """A seed that found something, with the steps that led there."""

    def __init__(self, seed: int, steps: list[str], cause: BaseException) -> None:
        super().__init__(f"seed {seed}, step {len(steps)}: {type(cause).__name__}: {cause}")
        self.seed = seed
        self.steps = steps
        self.cause = cause
