"""The messages between a follower and its leader: what Kafka's Fetch has of them."""

from __future__ import annotations

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.replication.settings import FetchLimits
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.storage.stored_batch import StoredBatch


class WantedPartition(msgspec.Struct, frozen=True):
    """A partition in a request: from which offset on. last_epoch: of the record before it, None without one.

    leader_epoch: the one in which the follower follows. log_start_offset: of the follower.
    """

    key: TopicPartitionKey
    leader_epoch: int
    offset: int
    last_epoch: int | None
    log_start_offset: int


class FollowerFetch(msgspec.Struct, frozen=True):
    """A request. node_id: of the follower."""

    node_id: int
    partitions: tuple[WantedPartition, ...]
    limits: FetchLimits


class FetchedPartition(msgspec.Struct, frozen=True):
    """A partition in a response: an error, the epoch at which the logs diverge with its end, or records.

    high_watermark, log_start_offset: of the leader. The batches have bytes of their own, as in a message.
    """

    wanted: WantedPartition
    error: ErrorCode = ErrorCode.NONE
    diverging: tuple[int, int] | None = None
    batches: tuple[StoredBatch, ...] = ()
    high_watermark: int = -1
    log_start_offset: int = -1

    @property
    def size(self) -> int:
        """Bytes of records."""
        return sum(batch.size for batch in self.batches) if self.batches else 0

    @property
    def is_urgent(self) -> bool:
        """Whether the response is sent at once."""
        return self.error is not ErrorCode.NONE or self.diverging is not None


class LogEnds(msgspec.Struct, frozen=True):
    """Where the leader's log starts and ends: the answer to a follower whose offset is out of its range."""

    start_offset: int
    end_offset: int
