"""One simulation run: chooses actions of members, producers, administrators and faults by a seed."""

from __future__ import annotations

from collections.abc import Callable

from mockbroker.engine.internal_errors import collect_internal_errors
from mockbroker.log_directory.simulated_files import ProcessEnded
from mockbroker.sim.admin import Admin
from mockbroker.sim.disk.disk_clients import DiskClients
from mockbroker.sim.faults import Faults
from mockbroker.sim.member import Member
from mockbroker.sim.operator import Operator
from mockbroker.sim.partition_checker import LOCK_MS_MAX
from mockbroker.sim.producer import Producer
from mockbroker.sim.random_choice import perform_action
from mockbroker.sim.simulated_cluster import SimulatedCluster
from mockbroker.sim.simulated_topics import GROUP_IDS
from mockbroker.sim.violation import SeedFailed, Violation

#: The time at the end after which locks, sessions and retries are over.
_SETTLE_MS = 120_000
_MAX_DRAIN_ROUNDS = 400
#: The number of rounds without a record after which a group is drained.
_EMPTY_ROUNDS = 3


class Simulation:
    """The clients and faults of one seed, and the cluster that they act on."""

    def __init__(
        self,
        seed: int,
        *,
        release: str | None = None,
        edition: str | None = None,
        persister: str = "default",
        on_disk: bool = False,
        replicates: bool = False,
    ) -> None:
        self.cluster = cluster = SimulatedCluster(
            seed, release=release, edition=edition, persister=persister, on_disk=on_disk, replicates=replicates
        )
        self._faults = Faults(cluster, cluster.new_rng())
        self._admin = Admin(cluster, cluster.new_rng())
        self._operator = Operator(cluster, cluster.new_rng())
        self._producers = [Producer(name, cluster, cluster.new_rng()) for name in (None, "x", "y")]
        groups = {"m1": "g", "m2": "g", "m3": "g", "n1": "h", "n2": "h"}
        self._members = [Member(name, group_id, cluster, cluster.new_rng()) for name, group_id in groups.items()]
        cluster.members = self._members
        self._disk_clients = None if cluster.disk is None else DiskClients(cluster, cluster.disk)

    def prepare(self) -> None:
        """Create the compacted topic and configure the groups."""
        self._operator.prepare()
        self._admin.prepare()

    def step(self) -> str:
        """Perform one random action. Returns: its description."""
        rng, on_disk = self.cluster.rng, self._disk_clients
        actions: list[tuple[int, Callable[[], str]]] = [
            (56, lambda: rng.choice(self._members).act()),
            (10, self._admin.produce),
            (8, lambda: rng.choice(self._producers).act()),
            (22, self._advance_randomly),
            (4, self._admin.act),
            (2, self._operator.act),
            (6, self._faults.act),
        ]
        if on_disk is None:
            description = perform_action(rng, actions)
            self.cluster.advance(0)
            return description
        try:
            description = perform_action(rng, [*actions, (24, on_disk.act), (4, on_disk.faults.act)])
            self.cluster.advance(0)
        except ProcessEnded:
            return on_disk.faults.end_in_call()
        return description

    def _advance_randomly(self) -> str:
        cluster = self.cluster
        due_ms = cluster.core.next_deadline_ms()
        to_due_ms = 0 if due_ms is None else max(0, min(due_ms - cluster.now_ms, 10_000))
        choices = (1, 20, to_due_ms, to_due_ms, max(0, to_due_ms - 1), 900, 4_000, 15_000, 35_000)
        duration_ms = cluster.rng.choice(choices)
        cluster.advance(duration_ms)
        return f"{duration_ms} ms pass"

    def finish(self) -> None:
        """End all faults and clients; then one new member of each group consumes the remaining records."""
        if self._disk_clients is not None:
            self._disk_clients.faults.restore()
        self._faults.restore()
        self._operator.restore()
        for member in self._members:
            member.crash()
        self.cluster.advance(0)
        self.cluster.advance(_SETTLE_MS)
        for group_id in GROUP_IDS:
            self._drain(Member(f"last-{group_id}", group_id, self.cluster, self.cluster.rng))
            self.cluster.invariants.record_drained(group_id)
        self.cluster.invariants.check_complete()
        if self._disk_clients is not None:
            self._disk_clients.check()

    def _drain(self, member: Member) -> None:
        invariants = self.cluster.invariants
        empty_rounds = 0
        for _ in range(_MAX_DRAIN_ROUNDS):
            # A fetch that gets only aborted records returns nothing, and moves on nevertheless.
            positions = invariants.fetch_positions()
            if member.drain_records() or invariants.fetch_positions() != positions:
                empty_rounds = 0
                continue
            empty_rounds += 1
            if empty_rounds == _EMPTY_ROUNDS:
                return
            # Records acquired below the log start block the window until their lock ends: nothing acknowledges them.
            self.cluster.advance(LOCK_MS_MAX)
            if member.holds_records:
                empty_rounds = 0  # Their response has waited for a write of the state, which waited for the disk.
        raise AssertionError(f"{member.member_id} does not finish")


def run(
    seed: int,
    *,
    steps: int = 200,
    trace: list[str] | None = None,
    release: str | None = None,
    edition: str | None = None,
    persister: str = "default",
    on_disk: bool = False,
    replicates: bool = False,
) -> SimulatedCluster:
    """Run one seed to its end; `trace` receives a line for each step. Raises: SeedFailed with the steps before.

    on_disk: with a data directory on a disk that fails, and processes that end. replicates: followers fetch.
    """
    simulation = Simulation(
        seed, release=release, edition=edition, persister=persister, on_disk=on_disk, replicates=replicates
    )
    cluster = simulation.cluster
    trace = [] if trace is None else trace
    try:
        with cluster.coverage.counting_transitions(), collect_internal_errors() as found:
            simulation.prepare()
            for _ in range(steps):
                now_ms = cluster.now_ms
                trace.append(f"{now_ms}: ...")
                trace[-1] = f"{now_ms}: {simulation.step()}"
            trace.append("the end")
            simulation.finish()
        if found:
            raise Violation(found[0])
    except Exception as cause:
        raise SeedFailed(seed, trace, cause) from cause
    return cluster
