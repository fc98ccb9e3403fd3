"""Faults and chaos profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mockbroker.control.models import faults as models
from mockbroker.control.models.common import NoParameters
from mockbroker.control.operations import ClusterContext, ControlContext
from mockbroker.control.problems import ProblemError, ProblemKind
from mockbroker.faults.chaos import PROFILES
from mockbroker.faults.model import faults_from_json

if TYPE_CHECKING:
    from mockbroker.faults.control import Chaos, FaultHandle

#: The maximum number of faults in one request: the cluster does nothing else while they are added.
FAULTS_MAX = 10_000
#: Of the body with several faults, the form of a file of them.
_LISTS = ("faults", "clusterFaults")


def list_faults(control: ControlContext, parameters: NoParameters) -> models.FaultStates:
    """The faults that were not removed, with their hits."""
    handles = control.cluster.faults.list() if control.cluster.has_faults else []
    return models.FaultStates(faults=[fault_model(handle, is_active=True) for handle in handles])


def add_faults(control: ControlContext, parameters: NoParameters, body: dict[str, Any]) -> models.FaultStates:
    """Add faults in their JSON form: one of requests, one of the nodes, or lists of both as in a file.

    All are added, or none. One that can never act is refused.
    """
    source = faults_from_json(body) if any(name in body for name in _LISTS) else [body]
    if len(source) > FAULTS_MAX:
        raise ValueError(f"there are {len(source)} faults; expected at most {FAULTS_MAX} in one request")
    handles = control.cluster.faults.add_all(source)
    return models.FaultStates(faults=[fault_model(handle, is_active=True) for handle in handles])


def remove_all_faults(control: ControlContext, parameters: NoParameters) -> None:
    """Remove all faults, and forget those that have never acted."""
    if control.cluster.has_faults:
        control.cluster.faults.clear()


def get_fault(control: ControlContext, parameters: models.FaultPath) -> models.FaultState:
    """A fault with its hits, also one that was removed."""
    handle = find_fault(control, parameters.number)
    return fault_model(handle, is_active=handle.is_active)


def remove_fault(control: ControlContext, parameters: models.FaultPath) -> models.FaultState:
    """Remove a fault; the answer has its hits."""
    handle = find_fault(control, parameters.number)
    handle.remove()
    return fault_model(handle, is_active=False)


def hold_requests(control: ControlContext, parameters: models.FaultPath) -> models.FaultState:
    """Hold the requests that a fault acts on from now on, until they are released."""
    handle = find_fault(control, parameters.number)
    handle.hold()
    return fault_model(handle, is_active=handle.is_active)


def release_requests(control: ControlContext, parameters: models.FaultPath, body: models.Release) -> models.Released:
    """Let the requests that a fault holds go on: the first ones, or all, and then it holds no more."""
    return models.Released(count=find_fault(control, parameters.number).release(body.count))


def list_fault_misses(control: ControlContext, parameters: models.MissesParameters) -> models.FaultMisses:
    """The faults that have never acted, with the requests that came nearest: at the end of a test none.

    Faults that were removed before they acted are among them, since a test may remove what it has added; without them
    by `removed=false`.
    """
    found = control.cluster.faults.misses() if control.cluster.has_faults else []
    misses = [
        models.FaultMiss(
            number=handle.number,
            name=handle.name,
            is_active=handle.is_active,
            message=f'{text}\n  With "optional": true in it the fault need not act.',
        )
        for handle, text in found
    ]
    return models.FaultMisses(misses=[miss for miss in misses if parameters.removed or miss.is_active])


def list_chaos_profiles(control: ClusterContext, parameters: NoParameters) -> models.ChaosProfiles:
    """The chaos profiles that there are."""
    return models.ChaosProfiles(
        profiles=[models.ChaosProfile(name=name, description=profile.description) for name, profile in PROFILES.items()]
    )


def list_chaos(control: ClusterContext, parameters: NoParameters) -> models.ChaosRuns:
    """The chaos profiles that were started."""
    runs = control.cluster.faults.list_chaos() if control.cluster.has_faults else []
    return models.ChaosRuns(chaos=[_chaos_model(chaos) for chaos in runs])


def start_chaos(control: ClusterContext, parameters: NoParameters, body: models.NewChaos) -> models.Chaos:
    """Disturb the cluster by a chaos profile until it is stopped; its seed repeats it."""
    return _chaos_model(control.cluster.faults.start_chaos(body.profile, body.seed))


def get_chaos(control: ClusterContext, parameters: models.ChaosPath) -> models.Chaos:
    """A chaos profile that was started."""
    return _chaos_model(_find_chaos(control, parameters.number))


def stop_chaos(control: ClusterContext, parameters: models.ChaosPath) -> models.Chaos:
    """Remove the faults of a chaos profile: nodes that are down start again."""
    chaos = _find_chaos(control, parameters.number)
    chaos.stop()
    return _chaos_model(chaos)


def fault_model(handle: FaultHandle, *, is_active: bool) -> models.FaultState:
    """A fault as it is sent."""
    return models.FaultState(
        number=handle.number,
        name=handle.name,
        hits=handle.hits,
        held=handle.held,
        is_active=is_active,
        near_misses=list(handle.near_misses),
        fault=handle.fault.to_json(),
    )


def _chaos_model(chaos: Chaos) -> models.Chaos:
    return models.Chaos(
        number=chaos.number,
        profile=chaos.profile,
        seed=chaos.seed,
        hits=chaos.hits,
        is_active=any(fault.is_active for fault in chaos.faults),
        faults=[fault.number for fault in chaos.faults],
    )


def find_fault(control: ControlContext, number: int) -> FaultHandle:
    """The fault of a number. Raises: ProblemError if there is none."""
    handle = control.cluster.faults.find(number) if control.cluster.has_faults else None
    if handle is None:
        raise ProblemError(ProblemKind.NOT_FOUND, f"there is no fault {number}")
    return handle


def _find_chaos(control: ClusterContext, number: int) -> Chaos:
    runs = control.cluster.faults.list_chaos() if control.cluster.has_faults else []
    for chaos in runs:
        if chaos.number == number:
            return chaos
    raise ProblemError(ProblemKind.NOT_FOUND, f"no chaos profile with the number {number} was started")
