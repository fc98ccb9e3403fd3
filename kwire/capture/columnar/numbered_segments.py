"""Segments for the streaming pipeline with the numbers of their packets, which its outcomes get, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import CaptureIssue, Segment

# Above every packet number.
_LAST = 2**62


class NumberedSegments:
    """Segments for the streaming pipeline; remembers the packet number of the latest one."""

    def __init__(self, numbered_segments: Iterator[tuple[int, Segment | CaptureIssue]]) -> None:
        self._numbered_segments = numbered_segments
        self._number = 0

    def __iter__(self) -> Iterator[Segment | CaptureIssue]:
        for number, segment in self._numbered_segments:
            self._number = number
            yield segment
        self._number = _LAST

    def with_numbers(self, outcomes: Iterator[Outcome]) -> Iterator[tuple[int, Outcome]]:
        """Each outcome with the number of the packet at which it was found."""
        for outcome in outcomes:
            yield self._number, outcome
