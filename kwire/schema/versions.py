"""Ranges of versions in the notation of the schemas: "0-4", "3+", "5", "none"."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The end of "3+": the highest version of an int16.
HIGHEST = 32767

_RANGE = re.compile(r"(\d{1,5})(?:(\+)|-(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class Versions:
    """All versions from `low` to `high`, both included; none at all when `high` is lower."""

    low: int
    high: int

    @staticmethod
    def parse(text: str) -> Versions:
        """The range of a text in a schema. Raises: ValueError when the text is not a range."""
        text = text.strip()
        if text == "none":
            return NONE
        match = _RANGE.fullmatch(text)
        if match is None:
            raise ValueError(f'{text!r} is not a range of versions such as "0-4", "3+", "5" or "none"')
        low = int(match[1])
        high = HIGHEST if match[2] else int(match[3] or low)
        if not low <= high <= HIGHEST:
            raise ValueError(f"{text!r} is an empty or too high range of versions")
        return Versions(low, high)

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def __bool__(self) -> bool:
        return self.low <= self.high

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.high == HIGHEST:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"

    def intersect(self, other: Versions) -> Versions:
        """The versions that are in both."""
        common = Versions(max(self.low, other.low), min(self.high, other.high))
        return common if common else NONE

    def covers(self, other: Versions) -> bool:
        """Whether every version of the other range is in this one."""
        return not other or (self.low <= other.low and other.high <= self.high)

    def to_range(self) -> range:
        """The versions as a range; for closed ranges, as those of messages."""
        return range(self.low, self.high + 1)


NONE = Versions(0, -1)
