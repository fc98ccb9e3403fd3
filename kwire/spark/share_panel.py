"""What one share partition looks like over time, as plain values of a report."""

from __future__ import annotations

from dataclasses import dataclass

#: The states that are drawn, from below, with the class that gives each its colour.
STATES = {"acquired": "c0", "available": "c1", "acknowledged": "ack-accept", "archived": "ack-reject"}
#: What has the state as a whole begin anew.
READ_CAUSES = (
    "load",
    "alter_offsets",
    "delete_offsets",
    "delete_group",
    "delete_topic",
    "initialize",
    "delete_state",
)


@dataclass(frozen=True, slots=True)
class Reading:
    """In which step the state began anew, and why: one of `READ_CAUSES`."""

    bin: int
    cause: str


@dataclass(frozen=True, slots=True)
class SharePanel:
    """One share partition in steps of `step_us`; each value is that of the end of its step.

    series: records between start and end, by state. peaks: the most that were acquired at once within the step. starts,
    ends: the offsets between which they lie, None before anything is known. begin, end: its start offset with the first
    and the last transition. deliveries_max: the highest delivery count. inferred: of the transitions, how many no
    message says in so many words.
    """

    group: str
    topic: str
    partition: int
    start_us: int
    step_us: int
    series: dict[str, list[int]]
    peaks: list[int]
    starts: list[int | None]
    ends: list[int | None]
    readings: list[Reading]
    begin: int
    end: int
    deliveries_max: int
    transitions: int
    inferred: int
