"""`HighWatermark`: what limits the high watermark: replicas that have not followed, and records not on the disk."""

from __future__ import annotations


class HighWatermark:
    """The limits of one log; without any, the high watermark is the end of the log.

    held: where it is held while replicas have less. unsynced: the first offset that is not on the disk, where
    acknowledgements wait for it. limit: the smaller one.
    """

    __slots__ = ("held", "limit", "unsynced")

    def __init__(self) -> None:
        self.held: int | None = None
        self.unsynced: int | None = None
        self.limit: int | None = None

    def set_limits(self, held: int | None, unsynced: int | None) -> None:
        """Replace both limits; None for no limit."""
        self.held, self.unsynced = held, unsynced
        limits = [offset for offset in (held, unsynced) if offset is not None]
        self.limit = min(limits) if limits else None

    def truncate_to(self, offset: int) -> None:
        """The log ends at an offset now."""
        held, unsynced = self.held, self.unsynced
        self.set_limits(
            None if held is None else min(held, offset), None if unsynced is None else min(unsynced, offset)
        )
