"""Runs of acknowledged offsets that simulated members send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mockbroker.state.metadata.topics import TopicPartitionKey


class AcknowledgementRun(NamedTuple):
    """A run of offsets with one acknowledge type for all, or one for each."""

    first: int
    last: int
    types: tuple[int, ...]

    def types_by_offset(self) -> dict[int, int]:
        """The type of every offset."""
        offsets = range(self.first, self.last + 1)
        return dict(zip(offsets, self.types if len(self.types) > 1 else self.types * len(offsets), strict=True))


Acknowledgements = dict[TopicPartitionKey, list[AcknowledgementRun]]


def to_runs(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Sorted offsets as runs of first and last."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and runs[-1][1] + 1 == offset:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs


def describe_acknowledgements(acknowledgements: Mapping[TopicPartitionKey, Sequence[AcknowledgementRun]]) -> str:
    """Acknowledgements as text for a trace."""
    texts = [
        f"{topic_id.hex()[:4]}-{index} {run.first}-{run.last}:{','.join(map(str, run.types))}"
        for (topic_id, index), runs in acknowledgements.items()
        for run in runs
    ]
    return "; ".join(texts) or "nothing to acknowledge"
