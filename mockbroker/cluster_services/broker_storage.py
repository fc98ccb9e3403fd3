"""Per-broker state that survives a restart of the broker, the logs excepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.cluster_services.share_snapshots import ShareSnapshots
    from mockbroker.state.metadata.client_quotas import ClientQuotas
    from mockbroker.state.quotas.connection_rates import AddressLimits
    from mockbroker.state.share.share_history import ShareHistory
    from mockbroker.state.storage.log_dirs import LogDirs
    from mockbroker.state.transaction.producer_ids import ProducerIdBlocks, ProducerIds


class BrokerStorage:
    """Producer ids, log directories and share snapshots by broker, and what the controller stores for the cluster.

    level_changes: how often feature levels have been changed since the start. quota_listeners: called after each change
    of client quotas.
    """

    def __init__(self) -> None:
        self._producer_ids: dict[int, ProducerIds] = {}
        self._log_dirs: dict[int, LogDirs] = {}
        self._directory_ids: dict[int, bytes] = {}
        self._directory_paths: dict[int, str] = {}
        self._share_snapshots: dict[int, ShareSnapshots] = {}
        self.level_changes = 0
        self.quota_listeners: list[Callable[[], None]] = []

    @cached_property
    def share_history(self) -> ShareHistory:
        """The recent events of records of share groups."""
        from mockbroker.state.share.share_history import ShareHistory

        return ShareHistory()

    @cached_property
    def _producer_id_blocks(self) -> ProducerIdBlocks:
        from mockbroker.state.transaction.producer_ids import ProducerIdBlocks

        return ProducerIdBlocks()

    @property
    def next_producer_id(self) -> int:
        """The first producer id of the next block, 0 before the first one."""
        return self._producer_id_blocks.next_start if "_producer_id_blocks" in self.__dict__ else 0

    @next_producer_id.setter
    def next_producer_id(self, next_producer_id: int) -> None:
        if next_producer_id != self.next_producer_id:
            self._producer_id_blocks.next_start = next_producer_id

    def producer_ids(self, node_id: int) -> ProducerIds:
        """The producer ids of a node: after a restart it continues where it was, so that none is assigned twice."""
        if node_id not in self._producer_ids:
            from mockbroker.state.transaction.producer_ids import ProducerIds

            self._producer_ids[node_id] = ProducerIds(self._producer_id_blocks.next_block)
        return self._producer_ids[node_id]

    def forget_producer_ids(self, next_producer_id: int) -> None:
        """Drop the blocks from this producer id on: that they were given out could not be stored."""
        if self.next_producer_id <= next_producer_id:
            return
        self.next_producer_id = next_producer_id
        for producer_ids in self._producer_ids.values():
            producer_ids.drop_blocks(next_producer_id)

    def set_directories(self, directory_ids: Mapping[int, bytes], paths: Mapping[int, str]) -> None:
        """Use the ids and paths of the directories in which the nodes store their logs."""
        self._directory_ids.update(directory_ids)
        self._directory_paths.update(paths)

    def log_dirs(self, node_id: int, paths: Sequence[str]) -> LogDirs:
        """The log directories of a node; its logs stay there over a restart. paths: as configured."""
        if node_id not in self._log_dirs:
            from mockbroker.state.storage.log_dirs import LogDirs

            stored = self._directory_paths.get(node_id)
            self._log_dirs[node_id] = LogDirs(paths if stored is None else [stored])
        return self._log_dirs[node_id]

    def share_snapshots(self, node_id: int) -> ShareSnapshots:
        """The share snapshot files of a node, used where share-partitions store their state in their own log."""
        if node_id not in self._share_snapshots:
            from mockbroker.cluster_services.share_snapshots import ShareSnapshots

            self._share_snapshots[node_id] = ShareSnapshots()
        return self._share_snapshots[node_id]

    def directory_id(self, node_id: int, randbytes: Callable[[int], bytes]) -> bytes:
        """The id of the directory with a node's metadata log, created on first use."""
        if node_id not in self._directory_ids:
            self._directory_ids[node_id] = randbytes(16)
        return self._directory_ids[node_id]

    @property
    def quota_changes(self) -> int:
        """How often quotas have been changed; reading it does not load the quotas."""
        return self.quotas.changed.count if "quotas" in self.__dict__ else 0

    @cached_property
    def quotas(self) -> ClientQuotas:
        """The client quotas of the cluster."""
        from mockbroker.state.metadata.client_quotas import ClientQuotas

        return ClientQuotas(self._on_quota_change)

    def _on_quota_change(self) -> None:
        for listener in self.quota_listeners:
            listener()

    @cached_property
    def address_limits(self) -> AddressLimits:
        """The quotas of addresses."""
        from mockbroker.state.quotas.connection_rates import AddressLimits

        return AddressLimits(self.quotas)
