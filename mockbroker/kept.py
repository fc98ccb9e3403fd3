"""What outlives a broker beside the logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.state.log_dirs import LogDirs
    from mockbroker.state.producer_ids import ProducerIds
    from mockbroker.state.quotas import Quotas
    from mockbroker.state.share_history import ShareHistory
    from mockbroker.state.share_snapshots import ShareSnapshots


class Kept:
    """One for the cluster: what its controller remembers of brokers.

    level_changes: how often feature levels have been changed since the start.
    """

    def __init__(self) -> None:
        self._producer_ids: dict[int, ProducerIds] = {}
        self._log_dirs: dict[int, LogDirs] = {}
        self._directory_ids: dict[int, bytes] = {}
        self._share_snapshots: dict[int, ShareSnapshots] = {}
        self.level_changes = 0

    @cached_property
    def share_history(self) -> ShareHistory:
        """What has happened to records of share groups lately."""
        from mockbroker.state.share_history import ShareHistory

        return ShareHistory()

    def producer_ids(self, node_id: int) -> ProducerIds:
        """The producer ids of a node: one that has restarted goes on where it was, and gives none twice."""
        room = self._producer_ids.get(node_id)
        if room is None:
            from mockbroker.state.producer_ids import ProducerIds

            room = self._producer_ids[node_id] = ProducerIds(node_id)
        return room

    def log_dirs(self, node_id: int, paths: Sequence[str]) -> LogDirs:
        """The log directories of a node, where its logs are also after a restart."""
        room = self._log_dirs.get(node_id)
        if room is None:
            from mockbroker.state.log_dirs import LogDirs

            room = self._log_dirs[node_id] = LogDirs(paths)
        return room

    def share_snapshots(self, node_id: int) -> ShareSnapshots:
        """The share snapshot files of a node, where share-partitions keep their state in their own log."""
        room = self._share_snapshots.get(node_id)
        if room is None:
            from mockbroker.state.share_snapshots import ShareSnapshots

            room = self._share_snapshots[node_id] = ShareSnapshots()
        return room

    def directory_id(self, node_id: int, randbytes: Callable[[int], bytes]) -> bytes:
        """The id of the directory with a node's metadata log, made when it is first asked for."""
        if node_id not in self._directory_ids:
            self._directory_ids[node_id] = randbytes(16)
        return self._directory_ids[node_id]

    @property
    def quota_changes(self) -> int:
        """How often quotas have been changed; nobody waits for their room who has none."""
        return self.quotas.changes if "quotas" in self.__dict__ else 0

    @cached_property
    def quotas(self) -> Quotas:
        """The client quotas of the cluster."""
        from mockbroker.state.quotas import Quotas

        return Quotas()
