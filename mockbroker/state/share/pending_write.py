"""State changes of a share partition that wait for their write to the share coordinator."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from mockbroker.state.share.dead_letter import DeadLetter
from mockbroker.state.share.in_flight_batch import InFlightBatch, InFlightState
from mockbroker.state.share.share_history import HistoryEvent
from mockbroker.state.share.state_batches import StateBatch


class StateChange(NamedTuple):
    """One state in transition: what the write stores, the batch it belongs to, and the event of the history."""

    state: InFlightState
    written: StateBatch
    batch: InFlightBatch
    event: HistoryEvent


class PendingWrite(msgspec.Struct):
    """What the share coordinator must store; pass the result to `SharePartition.complete_write`.

    `start_offset` is the start before this change takes effect, so the stored start lags one write behind (2.12).
    dead letters: released by an expired lock, they go to the dead-letter queue whether the write succeeds or not.
    is_archival: the write stores that dead letters are archived.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: list[StateBatch]
    changes: list[StateChange] = msgspec.field(default_factory=list)
    dead_letters: list[DeadLetter] = msgspec.field(default_factory=list)
    is_archival: bool = False
