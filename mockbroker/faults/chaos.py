"""Chaos profiles: named sets of faults that disturb a cluster for as long as they are set, by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mockbroker.faults.cluster_model import ClusterFault, create_cluster_fault
from mockbroker.faults.fault_error import FaultError, suggest
from mockbroker.faults.model import Fault
from mockbroker.faults.validation import create_fault

AnyFault = Fault | ClusterFault
#: The largest seed that is chosen when none is given.
_SEED_MAX = 1 << 31

_LEADER_APIS = ("Produce", "Fetch", "ListOffsets", "ShareFetch", "ShareAcknowledge")
_COORDINATOR_APIS = (
    *("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch", "LeaveGroup"),
    *("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"),
    *("InitProducerId", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"),
)


class Profile(NamedTuple):
    """A profile. build: its faults, for the ids of the nodes and random numbers from the seed."""

    description: str
    build: Callable[[Sequence[int], random.Random], list[AnyFault]]


def chaos_faults(profile: str, nodes: Sequence[int], seed: int) -> list[AnyFault]:
    """The faults of a profile. The same seed gives the same ones. Raises: FaultError for an unknown profile."""
    return check_profile(profile).build(nodes, random.Random(seed))


def check_profile(name: str) -> Profile:
    """The profile of this name. Raises: FaultError if there is none."""
    if name not in PROFILES:
        raise FaultError(f"chaos: {name!r} is not the name of a profile; {suggest(name, PROFILES)}")
    return PROFILES[name]


def choose_seed() -> int:
    """A seed for a run that was given none."""
    return random.SystemRandom().randrange(_SEED_MAX)


def _slow_network(nodes: Sequence[int], rng: random.Random) -> list[AnyFault]:
    return [
        create_fault(None, after=True, delay_ms=5, jitter_ms=45, optional=True, name="slow network"),
        create_fault(None, after=True, delay_ms=400, probability=0.01, optional=True, name="very slow network"),
        create_cluster_fault("slow-network", latency_ms=30, optional=True, name="slow network between nodes"),
    ]


def _flaky_leader(nodes: Sequence[int], rng: random.Random) -> list[AnyFault]:
    options = {"probability": 0.1, "optional": True, "name": "flaky leader"}
    faults: list[AnyFault] = [
        create_fault(api, error="NOT_LEADER_OR_FOLLOWER", error_at="partition", **options) for api in _LEADER_APIS
    ]
    return [*faults, create_fault("Metadata", error="LEADER_NOT_AVAILABLE", error_at="topic", **options)]


def _rolling_restart(nodes: Sequence[int], rng: random.Random) -> list[AnyFault]:
    order = rng.sample(list(nodes), len(nodes))
    down_ms, period_ms = rng.randint(300, 700), 1500
    return [
        create_cluster_fault(
            "stop-node",
            node=node,
            at_ms=500 + position * period_ms,
            for_ms=down_ms,
            every_ms=len(nodes) * period_ms,
            optional=True,
            name=f"restart of node {node}",
        )
        for position, node in enumerate(order)
    ]


def _coordinator_storm(nodes: Sequence[int], rng: random.Random) -> list[AnyFault]:
    faults: list[AnyFault] = [
        create_cluster_fault(
            "move-coordinator",
            coordinator=coordinator,
            at_ms=rng.randint(200, 1000),
            every_ms=rng.randint(800, 1200),
            optional=True,
            name=f"moved {coordinator} coordinators",
        )
        for coordinator in ("group", "transaction", "share")
    ]
    for error in ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"):
        options = {"probability": 0.05, "optional": True, "name": "coordinator storm"}
        faults += [create_fault(api, error=error, **options) for api in _COORDINATOR_APIS]
    return faults


def _isolated_node(nodes: Sequence[int], rng: random.Random) -> list[AnyFault]:
    node = rng.choice(list(nodes))
    times = {"node": node, "at_ms": 500, "for_ms": rng.randint(500, 1500), "every_ms": 3000, "optional": True}
    return [
        create_cluster_fault("pause-node", name=f"node {node} is isolated", **times),
        create_cluster_fault("slow-network", loss=1.0, name=f"messages to node {node} are lost", **times),
    ]


def _expiring_credentials(nodes: Sequence[int], rng: random.Random) -> list[AnyFault]:
    lifetime_ms = rng.randint(1000, 2000)
    lifetime = {"session_lifetime_ms": lifetime_ms}
    options = {"optional": True, "name": "expiring credentials"}
    return [
        create_fault("SaslAuthenticate", set_fields=lifetime, **options),
        create_fault("SaslAuthenticate", error="SASL_AUTHENTICATION_FAILED", probability=0.1, first=2, **options),
        create_cluster_fault("expire-sessions", at_ms=lifetime_ms, every_ms=2 * lifetime_ms, **options),
    ]


def _lost_members(nodes: Sequence[int], rng: random.Random) -> list[AnyFault]:
    return [
        create_cluster_fault(
            action,
            at_ms=rng.randint(500, 1500),
            every_ms=rng.randint(1000, 2000),
            optional=True,
            name=f"chaos {action}",
        )
        for action in ("fence-member", "expire-locks", "expire-transaction")
    ]


#: Every profile by its name.
PROFILES: dict[str, Profile] = {
    "coordinator-storm": Profile("coordinators move every second and refuse some requests", _coordinator_storm),
    "expiring-credentials": Profile("sessions of SASL last a second or two, and logins fail", _expiring_credentials),
    "flaky-leader": Profile("one request to a leader in ten fails with NOT_LEADER_OR_FOLLOWER", _flaky_leader),
    "isolated-node": Profile("one node neither answers nor gets messages, again and again", _isolated_node),
    "lost-members": Profile(
        "members are fenced, locks and open transactions expire, every second or two", _lost_members
    ),
    "rolling-restart": Profile("the nodes restart one after the other, without an end", _rolling_restart),
    "slow-network": Profile("answers are some 30 ms late, a few of them 400 ms", _slow_network),
}
