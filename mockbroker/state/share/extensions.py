"""Protocols of the machines that only the drafts of KIP-932 add to a share partition.

`mockbroker/editions` implements them; the rules of an edition (`ShareRules`) hold the factories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kwire.error_codes import ErrorCode
    from kwire.records import Batch, Record
    from mockbroker.state.share.in_flight_window import InFlightWindow
    from mockbroker.state.share.pending_write import PendingWrite, StateChange
    from mockbroker.state.share.state_batches import StateBatch


class RecordSpan(Protocol):
    """The offsets of a record batch of the log."""

    @property
    def base_offset(self) -> int:
        """Its first offset."""

    @property
    def last_offset(self) -> int:
        """Its last offset."""


class LogBatch(RecordSpan, Protocol):
    """A batch of the log with access to its header and control records."""

    def header(self) -> Batch:
        """Its producer and attributes."""

    def records(self) -> list[Record]:
        """Its records, decoded; used for control batches only."""


#: Reads the log from an offset on, batch by batch, up to the high watermark.
ReadAhead = Callable[[int], Iterator[LogBatch]]


class DeltaWriter(Protocol):
    """Builds writes that contain only what changed, for one share partition."""

    def reset_stored_range(self, start: int, end: int) -> None:
        """Set what is stored after a load: the start, and the first offset without a stored state."""

    def require_start(self) -> None:
        """Have every write name the start until one that does has succeeded."""

    def build_write(
        self, window: InFlightWindow, batches: Sequence[StateBatch], changes: Sequence[StateChange]
    ) -> tuple[int, list[StateBatch]]:
        """Start offset and states of a write of these batches; from now on they count as stored."""

    def merge_writes(self, write: PendingWrite, other: PendingWrite) -> None:
        """Add the content of another write to one that is not sent yet."""

    def record_result(self, start_offset: int, error: ErrorCode | None) -> None:
        """A write with this start offset succeeded or failed."""


class MarkerReader(Protocol):
    """Holds records of open transactions in the window of one share partition until their marker is read."""

    def add_batches(
        self, window: InFlightWindow, batches: Sequence[LogBatch], read_ahead: ReadAhead, *, limit: int, now_ms: int
    ) -> list[StateBatch]:
        """Add batches of the log to the window, up to a limit of records in flight, and apply their markers.

        Returns: what was archived, to be written.
        """

    def release_all(self, window: InFlightWindow) -> None:
        """Make all uncommitted records available: the group reads uncommitted records from now on."""
