"""Weighted random choice of an action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random


def perform_action(rng: Random, weighted_actions: Sequence[tuple[int, Callable[[], str]]]) -> str:
    """Perform one of the actions, each with the probability of its weight. Returns: its description."""
    weights = [weight for weight, _ in weighted_actions]
    actions = [action for _, action in weighted_actions]
    return rng.choices(actions, weights)[0]()
