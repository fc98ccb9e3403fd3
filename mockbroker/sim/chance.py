"""Choosing by chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random


def do_one(rng: Random, deeds: Sequence[tuple[int, Callable[[], str]]]) -> str:
    """Do one of the deeds, each as likely as its weight says; what it tells of itself."""
    weights = [weight for weight, _ in deeds]
    actions = [action for _, action in deeds]
    return rng.choices(actions, weights)[0]()
