"""Bodies of faults and chaos profiles."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from mockbroker.control.models.common import Int64, RequestModel, ResponseModel

_ANY_FAULT = {"oneOf": [{"$ref": "#/components/schemas/Fault"}, {"$ref": "#/components/schemas/ClusterFault"}]}
#: A fault in its JSON form: of requests, or, with an `action`, of the nodes.
AnyFault = Annotated[dict[str, Any], msgspec.Meta(extra_json_schema=_ANY_FAULT)]


class FaultState(ResponseModel, frozen=True):
    """A fault with its number. isActive: it was not removed. held: how many requests wait for their release.

    nearMisses: the latest requests that it did not act on.
    """

    number: int
    name: str
    hits: int
    held: int
    is_active: bool
    near_misses: list[str]
    fault: AnyFault


class FaultStates(ResponseModel, frozen=True):
    """Faults that were not removed, in the order in which they were added, those of requests first."""

    faults: list[FaultState]


class FaultPath(RequestModel, frozen=True):
    """number: of a fault."""

    number: int


class Release(RequestModel, frozen=True):
    """count: how many held requests go on, the first ones; null for all, and later ones are not held."""

    count: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Released(ResponseModel, frozen=True):
    """count: how many requests went on."""

    count: int


class MissesParameters(RequestModel, frozen=True):
    """Which misses. removed: also of faults that were removed before they acted."""

    removed: bool = True


class FaultMiss(ResponseModel, frozen=True):
    """A fault that has never acted though it is not optional. message: the requests that came nearest, as text.

    isActive: it was not removed.
    """

    number: int
    name: str
    is_active: bool
    message: str


class FaultMisses(ResponseModel, frozen=True):
    """The faults since the start, or since all were removed, that have never acted; optional ones are left out."""

    misses: list[FaultMiss]


class ChaosProfile(ResponseModel, frozen=True):
    """A chaos profile."""

    name: str
    description: str


class ChaosProfiles(ResponseModel, frozen=True):
    """The chaos profiles that there are."""

    profiles: list[ChaosProfile]


class NewChaos(RequestModel, frozen=True):
    """A profile to start. seed: of its choices, by default one that is chosen."""

    profile: str
    seed: Int64 | None = None


class Chaos(ResponseModel, frozen=True):
    """A chaos profile that was started. faults: their numbers. isActive: one of them was not removed."""

    number: int
    profile: str
    seed: int
    hits: int
    is_active: bool
    faults: list[int]


class ChaosRuns(ResponseModel, frozen=True):
    """The chaos profiles that were started, in that order."""

    chaos: list[Chaos]


class ChaosPath(RequestModel, frozen=True):
    """number: of a chaos profile that was started."""

    number: int
