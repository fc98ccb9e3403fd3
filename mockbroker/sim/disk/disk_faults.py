"""Faults of the disk, and ends of the process with a new one on the same data directory."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from mockbroker.sim.disk.simulated_disk import DiskConditions, ProcessEnd, SimulatedDisk
from mockbroker.sim.random_choice import perform_action
from mockbroker.sim.simulated_cluster import SimulatedCluster

#: A process that is going to end makes so many calls of the file system at most.
_CALLS_MAX = 60
_CONDITIONS = (*DiskConditions, DiskConditions.GOOD, DiskConditions.GOOD)


class DiskFaults:
    """Changes the conditions of a disk, ends the process at once, or has it end in the middle of a call."""

    def __init__(self, cluster: SimulatedCluster, disk: SimulatedDisk, rng: Random) -> None:
        self._cluster = cluster
        self._disk = disk
        self._rng = rng
        # Without fsync a machine that crashes loses acknowledged records, as with Kafka's defaults.
        self._abrupt_ends = (ProcessEnd.KILLED, ProcessEnd.CRASHED) if disk.fsync else (ProcessEnd.KILLED,)

    def act(self) -> str:
        """Cause one fault, or end one."""
        actions: list[tuple[int, Callable[[], str]]] = [
            (6, self._change_conditions),
            (3, self._end_process),
            (3, self._plan_end),
        ]
        return perform_action(self._rng, actions)

    def end_in_call(self) -> str:
        """The process has ended in the middle of a call: a new one starts."""
        self._cluster.coverage.count("process ended in a call")
        return self._restart(self._rng.choice(self._abrupt_ends))

    def restore(self) -> None:
        """End all faults, and the process for the last time."""
        self._disk.set_conditions(DiskConditions.GOOD)
        self._disk.calls_left = None
        self._restart(self._rng.choice((ProcessEnd.CLEAN, *self._abrupt_ends)))

    def _change_conditions(self) -> str:
        conditions = self._rng.choice(_CONDITIONS)
        self._disk.set_conditions(conditions)
        return f"disk: {conditions.name.lower()}"

    def _plan_end(self) -> str:
        if self._disk.calls_left is None:
            self._disk.calls_left = self._rng.randrange(_CALLS_MAX)
        return f"the process ends after {self._disk.calls_left} calls of the file system"

    def _end_process(self) -> str:
        return self._restart(self._rng.choice((ProcessEnd.CLEAN, *self._abrupt_ends)))

    def _restart(self, how: ProcessEnd) -> str:
        self._cluster.coverage.count(how.value)
        self._cluster.restart(how)
        return how.value
