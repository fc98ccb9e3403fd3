"""All stories by their names, and how one is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.nodes import replica_story, share_story, story
from tests.nodes.teller import Teller, Venue

Story = Callable[[Teller, dict[str, Any]], None]

STORIES: Mapping[str, Story] = {
    one.__name__: one for one in (*story.STORIES, *replica_story.STORIES, *share_story.STORIES)
}


def tell(name: str, venue: Venue) -> dict[str, Any]:
    """Tell a story at a venue, and give back what was seen."""
    teller = Teller(venue)
    seen: dict[str, Any] = {}
    try:
        STORIES[name](teller, seen)
    finally:
        teller.hang_up()
    return seen
