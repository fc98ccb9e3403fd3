"""`LogDirectory`: the directory in which the logs of a cluster are, if they are not in memory."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Protocol

from mockbroker.state.storage.batches.batch_storage import BatchStorage, RestoredState
from mockbroker.state.storage.log_config import TopicConfigs

if TYPE_CHECKING:
    from mockbroker.state.storage.partition_log import PartitionLog


class LogFiles(BatchStorage, Protocol):
    """The files of one log."""

    def bind(self, log: PartitionLog) -> None:
        """Use the producers and offsets of this log."""

    def set_replicas(self, node_ids: Sequence[int]) -> None:
        """The partition has its replicas on these nodes now."""


class DiskLogs(Protocol):
    """The files of all logs."""

    def open_log(
        self,
        topic_name: str,
        topic_id: bytes,
        partition_index: int,
        node_ids: Sequence[int],
        *,
        leader_epoch: int,
        now_ms: int,
    ) -> tuple[LogFiles, RestoredState]:
        """Open the files of a partition, or create them. node_ids: of its replicas. leader_epoch: of the metadata.

        Raises: KAFKA_STORAGE_ERROR if they cannot be created or read; errors of damaged files.
        """

    def remove_unknown(self, is_known: Container[tuple[str, int]]) -> None:
        """Rename the folders of all partitions but the known ones, which were opened."""

    def next_deadline_ms(self, *, now_ms: int) -> int | None:
        """When something has to be written or removed, or None."""

    def expire(self, *, now_ms: int) -> None:
        """Write and remove what is due."""

    def close(self) -> None:
        """Write everything to the disk. Raises: OSError."""


class LogDirectory(Protocol):
    """An open data directory."""

    def open_logs(self, configs: TopicConfigs) -> DiskLogs:
        """Its logs, which all replicas share. configs: of topics and brokers."""

    def open_logs_of(self, node_id: int, configs: TopicConfigs) -> DiskLogs:
        """The logs of one node's replicas, which it does not share."""
