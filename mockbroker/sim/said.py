"""What a member says of records: runs of offsets with acknowledge types."""

from __future__ import annotations

from typing import NamedTuple

Place = tuple[bytes, int]


class Said(NamedTuple):
    """A run of offsets with one acknowledge type for all, or one for each."""

    first: int
    last: int
    types: tuple[int, ...]

    def each(self) -> dict[int, int]:
        """The type of every offset."""
        return {
            offset: self.types[offset - self.first if len(self.types) > 1 else 0]
            for offset in range(self.first, self.last + 1)
        }


def runs_of(offsets: list[int]) -> list[tuple[int, int]]:
    """Sorted offsets as runs of first and last."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and runs[-1][1] + 1 == offset:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs


def text_of(said: dict[Place, list[Said]]) -> str:
    """What is said, for people."""
    words = [
        f"{topic_id.hex()[:4]}-{index} {batch.first}-{batch.last}:{','.join(map(str, batch.types))}"
        for (topic_id, index), batches in said.items()
        for batch in batches
    ]
    return "; ".join(words) or "nothing to acknowledge"
