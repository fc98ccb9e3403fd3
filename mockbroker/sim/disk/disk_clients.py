"""`DiskClients`: the participants of a simulation that only a cluster with a data directory has."""

from __future__ import annotations

from mockbroker.sim.disk.disk_faults import DiskFaults
from mockbroker.sim.disk.offset_writer import OffsetWriter
from mockbroker.sim.disk.sequence_writer import SequenceWriter
from mockbroker.sim.disk.simulated_disk import SimulatedDisk
from mockbroker.sim.disk.transaction_writer import GROUP, TOPIC, TransactionWriter
from mockbroker.sim.simulated_cluster import SimulatedCluster


class DiskClients:
    """Clients that remember what was promised to them. faults: of the disk and the process."""

    def __init__(self, cluster: SimulatedCluster, disk: SimulatedDisk) -> None:
        self._cluster = cluster
        self._rng = cluster.new_rng()
        self.faults = DiskFaults(cluster, disk, cluster.new_rng())
        self._sequences = SequenceWriter(cluster, cluster.new_rng())
        self._transactions = TransactionWriter(cluster, cluster.new_rng())
        self._offsets = OffsetWriter(cluster, cluster.new_rng())

    def act(self) -> str:
        """One step of one of them."""
        return self._rng.choice((self._sequences, self._transactions, self._transactions, self._offsets)).act()

    def check(self) -> None:
        """At the end, when all transactions have ended: compare everything. Raises: Violation."""
        self._cluster.records.check_all()
        self._sequences.check()
        self._transactions.check()
        self._offsets.check()
        self._offsets.check_group(GROUP, TOPIC, *self._transactions.offset_bounds())
