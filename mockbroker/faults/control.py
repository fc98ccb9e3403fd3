"""`Faults`: the faults of a running cluster as its user adds, lists and removes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mockbroker.faults.active_fault import ActiveFault
from mockbroker.faults.chaos import choose_seed
from mockbroker.faults.cluster_model import (
    ClusterFault,
    check_cluster_fault,
    cluster_fault_from_json,
    create_cluster_fault,
)
from mockbroker.faults.fault_error import FaultError
from mockbroker.faults.model import Fault, fault_from_json, faults_from_text
from mockbroker.faults.validation import check_fault, create_fault

if TYPE_CHECKING:
    import msgspec

    from mockbroker.faults.active_cluster_fault import ActiveClusterFault
    from mockbroker.faults.held_requests import HeldRequests
    from mockbroker.faults.registry import ChaosRun, FaultRegistry

T = TypeVar("T")


AnyFault = Fault | ClusterFault
FaultSource = Iterable[AnyFault | Mapping[str, object]] | str | Path


def load_faults(source: FaultSource) -> tuple[AnyFault, ...]:
    """The checked faults of a list, as values or in their JSON form, or of the JSON file of this path.

    Raises: FaultError that names the fault, OSError if there is no such file.
    """
    if isinstance(source, str | Path):
        try:
            faults: Iterable[AnyFault | Mapping[str, object]] = faults_from_text(Path(source).read_bytes())
        except FaultError as error:
            raise FaultError(f"{source}: {error}") from error
    else:
        faults = source
    checked = []
    for number, fault in enumerate(faults, 1):
        try:
            checked.append(_read_fault(fault))
        except FaultError as error:
            where = f"{source}: " if isinstance(source, str | Path) else ""
            raise FaultError(f"{where}fault {number}: {error}") from error
    return tuple(checked)


def _read_fault(fault: AnyFault | Mapping[str, object]) -> AnyFault:
    """A checked fault; the JSON form of one of the cluster has an action."""
    if isinstance(fault, Mapping):
        fault = cluster_fault_from_json(fault) if "action" in fault else fault_from_json(fault)
    return check_cluster_fault(fault) if isinstance(fault, ClusterFault) else check_fault(fault)


def held_requests(active: ActiveFault | ActiveClusterFault) -> HeldRequests:
    """The requests that a fault holds. Raises: FaultError for a fault that acts on no requests."""
    fault = active.fault
    if not isinstance(active, ActiveFault) or not isinstance(fault, Fault) or fault.when.on == "connection":
        raise FaultError(f"{active.name}: only faults of requests hold them")
    return active.held


class FaultHandle:
    """A fault that was added; in a `with` block it is removed at the end."""

    def __init__(self, active: ActiveFault | ActiveClusterFault, faults: Faults) -> None:
        self._active = active
        self._faults = faults

    @property
    def name(self) -> str:
        """The name in the journal: the given one, or a description."""
        return self._active.name

    @property
    def number(self) -> int:
        """The number of the fault in its cluster, from 1 in order of adding."""
        return self._active.number

    @property
    def fault(self) -> Fault | ClusterFault:
        """The fault."""
        return self._active.fault

    @property
    def hits(self) -> int:
        """How often it has acted."""
        return self._active.hits

    @property
    def is_active(self) -> bool:
        """Whether it was not removed; one that has acted as often as it may stays active."""
        return self._faults._run(lambda registry: registry.is_active(self._active))

    @property
    def near_misses(self) -> tuple[str, ...]:
        """The latest requests of its API that it did not act on, each with the reason."""
        return tuple(self._active.near_misses)

    @property
    def held(self) -> int:
        """How many requests it holds now: they wait until `release`."""
        return self._active.held_count

    def hold(self) -> None:
        """Hold the requests that it acts on from now on until they are released, whatever the clock does.

        Raises: FaultError for a fault of connections or of the cluster.
        """

        def start(_: FaultRegistry) -> None:
            self._held().is_on = True

        self._faults._run(start)

    def release(self, count: int | None = None) -> int:
        """Let the first requests that it holds go on; None: all, and later ones are not held. Returns: how many went.

        Raises: FaultError as `hold`, and for a number below 1.
        """
        if count is not None and count < 1:
            raise FaultError(f"count: {count} is not a whole number from 1 on")
        return self._faults._run(lambda _: self._held().release(count))

    def _held(self) -> HeldRequests:
        return held_requests(self._active)

    def remove(self) -> None:
        """Remove the fault, and release the requests that it holds; does nothing if it is removed."""
        self._faults.remove(self)

    def __enter__(self) -> FaultHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<fault {self.name}: {self.hits} hits>"


class Chaos:
    """The faults of a chaos profile, until `stop` or the end of the `with` block.

    seed: repeats them. number: of the start of a profile in its cluster, from 1.
    """

    def __init__(self, profile: str, seed: int, faults: Sequence[FaultHandle], number: int) -> None:
        self.number = number
        self.profile = profile
        self.seed = seed
        self.faults = tuple(faults)

    @property
    def hits(self) -> int:
        """How often its faults have acted."""
        return sum(fault.hits for fault in self.faults)

    def stop(self) -> None:
        """Remove its faults: nodes that are down start again."""
        for fault in self.faults:
            fault.remove()

    def __enter__(self) -> Chaos:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<chaos {self.profile}, seed {self.seed}: {self.hits} hits>"


class Faults:
    """The faults of a cluster. run: calls a function with the registry in the cluster's thread."""

    def __init__(self, run: Callable[[Callable[[FaultRegistry], object]], object]) -> None:
        self._run_in_cluster = run

    def _run(self, action: Callable[[FaultRegistry], T]) -> T:
        results: list[T] = []
        self._run_in_cluster(lambda registry: results.append(action(registry)))
        return results[0]

    def add(
        self, api: str | type[msgspec.Struct] | Fault | Mapping[str, object] | None = None, **options: object
    ) -> FaultHandle:
        """Add a fault: for an API with the fields of `When` and `Then`, as a `Fault`, or in its JSON form.

        `add("Produce", topic="orders", times=2, error="NOT_LEADER_OR_FOLLOWER")`. Raises: FaultError for one that can
        never match or act; then nothing is changed.
        """
        if isinstance(api, Fault):
            fault = api
        elif isinstance(api, Mapping):
            fault = fault_from_json(api)
        else:
            fault = create_fault(api, **options)
        return FaultHandle(self._run(lambda registry: registry.add(fault)), self)

    def add_all(self, source: FaultSource) -> list[FaultHandle]:
        """Add several faults, as values, in their JSON form or from a JSON file: all of them, or none.

        Raises: FaultError that names the fault that can never act, OSError if there is no such file.
        """
        faults = load_faults(source)
        return [FaultHandle(active, self) for active in self._run(lambda registry: registry.add_all(faults))]

    def schedule(self, action: str | ClusterFault, **options: object) -> FaultHandle:
        """Add a fault of the nodes, with the fields of `ClusterFault`: `schedule("kill-node", node=1, for_ms=5000)`.

        Raises: FaultError for one that cannot happen; then nothing is changed.
        """
        fault = action if isinstance(action, ClusterFault) else create_cluster_fault(action, **options)
        return FaultHandle(self._run(lambda registry: registry.schedule(fault)), self)

    def start_chaos(self, profile: str, seed: int | None = None) -> Chaos:
        """Add the faults of a profile; without a seed, by one that is chosen.

        Raises: FaultError for an unknown profile.
        """
        chosen = choose_seed() if seed is None else seed
        added = self._run(lambda registry: registry.add_chaos(profile, chosen))
        return self._chaos(added)

    def list_chaos(self) -> list[Chaos]:
        """The chaos profiles that were started since the last `clear`, in that order."""
        return [self._chaos(run) for run in self._run(lambda registry: list(registry.chaos_runs))]

    def _chaos(self, run: ChaosRun) -> Chaos:
        return Chaos(run.profile, run.seed, [FaultHandle(active, self) for active in run.faults], run.number)

    def list(self) -> list[FaultHandle]:
        """The faults that were added and not removed, in that order."""
        return [FaultHandle(active, self) for active in self._run(lambda registry: registry.active)]

    def remove(self, handle: FaultHandle) -> None:
        """Remove a fault."""
        self._run(lambda registry: registry.remove(handle._active))

    def find(self, number: int) -> FaultHandle | None:
        """The fault of this number, also one that was removed; None if there is none since the last `clear`."""
        active = self._run(lambda registry: registry.find(number))
        return None if active is None else FaultHandle(active, self)

    def clear(self) -> None:
        """Remove all faults, and forget those without hits."""
        self._run(lambda registry: registry.clear())

    def check_hits(self) -> None:
        """Check that each fault has acted, except optional ones. Raises: AssertionError with the nearest requests."""
        missing = self.misses()
        if missing:
            raise AssertionError(
                "\n".join(f"{text}\n  Set optional=True if the fault need not act." for _, text in missing)
            )

    def misses(self) -> Sequence[tuple[FaultHandle, str]]:
        """The faults that should have acted and have not, each with the nearest requests as text."""
        missing = self._run(lambda registry: [(each, each.describe_misses()) for each in registry.without_hits()])
        return [(FaultHandle(active, self), text) for active, text in missing]
