"""Chaos profiles: which faults each has, and that a seed repeats them."""

from __future__ import annotations

import random

import pytest

from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.list_groups import ListGroupsRequest
from mockbroker.faults import FaultError
from mockbroker.faults.chaos import PROFILES, chaos_faults
from mockbroker.faults.control import Chaos
from tests.support.brokers.faulty_broker import FaultyBroker


def _start(broker: FaultyBroker, profile: str, seed: int | None = 7) -> Chaos:
    return broker.faults.start_chaos(profile, seed)


@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.parametrize("nodes", [1, 3])
def test_a_profile_is_set_and_stopped_at_any_time(profile: str, nodes: int) -> None:
    broker = FaultyBroker(nodes=nodes)
    chaos = _start(broker, profile)
    for _ in range(random.Random(profile).randrange(1, 100)):
        broker.advance(100)
    chaos.stop()
    broker.advance(10_000)

    assert len(chaos.faults) == len(chaos_faults(profile, range(nodes), 7)) > 0
    assert broker.faults.list() == []
    assert sorted(broker.core.state.inter_broker.nodes) == list(range(nodes))
    assert broker.call(ListGroupsRequest(), 5, connection="fresh").error_code == 0
    broker.faults.check_hits()  # All are optional.


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_a_seed_gives_the_same_faults(profile: str) -> None:
    assert chaos_faults(profile, [0, 1, 2], 7) == chaos_faults(profile, [0, 1, 2], 7)


def test_the_seed_of_the_profile_decides_which_requests_fail() -> None:
    def pattern(seed: int) -> list[int]:
        broker = FaultyBroker()
        broker.faults.add("Metadata", drop=True, optional=True)  # Other faults do not matter.
        _start(broker, "coordinator-storm", seed)
        request = HeartbeatRequest("g", 1, "m")
        return [broker.call(request, 4).error_code for _ in range(100)]

    assert pattern(1) == pattern(1)
    assert pattern(1) != pattern(2)
    assert {14, 16} <= set(pattern(1))


def test_a_rolling_restart_stops_each_node_and_at_most_one_at_a_time() -> None:
    broker = FaultyBroker(nodes=3)
    chaos = _start(broker, "rolling-restart")
    down = []
    for _ in range(100):
        broker.advance(100)
        down.append(tuple(node for node in range(3) if node not in broker.core.state.inter_broker.nodes))

    assert set(down) == {(), (0,), (1,), (2,)}
    assert chaos.hits == 7


def test_an_isolated_node_answers_later() -> None:
    broker = FaultyBroker(nodes=2)
    chaos = _start(broker, "isolated-node")
    broker.advance(501)
    for node in (0, 1):
        broker.send(ListGroupsRequest(), 5, connection=f"n{node}", node=node)
    answered = [broker.take_response(f"n{node}") is not None for node in (0, 1)]
    broker.advance(1500)

    assert sorted(answered) == [False, True]
    assert all(broker.take_response(f"n{node}") for node in (0, 1) if not answered[node])
    assert chaos.hits == 2


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(FaultError, match="'rolling-restarts' is not the name of a profile; did you mean 'rolling-rest"):
        _start(FaultyBroker(), "rolling-restarts")


def test_a_seed_is_chosen_when_none_is_given() -> None:
    seeds = {_start(FaultyBroker(), "slow-network", None).seed for _ in range(3)}

    assert len(seeds) == 3
