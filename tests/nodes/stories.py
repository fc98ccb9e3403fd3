"""All stories by their names, and how one is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.nodes import (
    balance_story,
    coordinator_story,
    held_story,
    late_story,
    producer_story,
    replica_story,
    share_story,
    story,
)
from tests.nodes.teller import Teller, Venue

Story = Callable[[Teller, dict[str, Any]], None]

_CHAPTERS = (
    story,
    replica_story,
    share_story,
    coordinator_story,
    producer_story,
    balance_story,
    held_story,
    late_story,
)
STORIES: Mapping[str, Story] = {one.__name__: one for chapter in _CHAPTERS for one in chapter.STORIES}

#: Those that are recorded on a cluster which is told more than the others.
BALANCED = frozenset(one.__name__ for one in balance_story.STORIES)


def tell(name: str, venue: Venue) -> dict[str, Any]:
    """Tell a story at a venue, and give back what was seen."""
    teller = Teller(venue)
    seen: dict[str, Any] = {}
    try:
        STORIES[name](teller, seen)
    finally:
        teller.hang_up()
    return seen
