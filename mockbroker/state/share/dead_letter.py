"""Records of a share partition on their way to the group's dead-letter queue (KIP-1191)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from mockbroker.state.share.in_flight_batch import InFlightState


class DeadLetterCause(Enum):
    """Why a record goes to the dead-letter queue; the values are the texts of Kafka 4.4.0 in the record's headers."""

    REJECTED = "Offset rejected by client."
    DELIVERY_LIMIT = "Offset delivery count exceeded the threshold."


class DeadLetter(NamedTuple):
    """A run of offsets in the state ARCHIVING, which is stored already.

    `SharePartition.archive_dead_letter` takes it when the queue has answered.
    """

    state: InFlightState
    first: int
    last: int
    delivery_count: int
    cause: DeadLetterCause
