"""Faults of the nodes at their times: down, paused, leaders moved, messages between nodes late or lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from mockbroker.cluster_services.inter_broker import Delivery, Loss
from mockbroker.faults import ClusterFault, Fault, FaultError, Then, When
from mockbroker.faults.cluster_model import cluster_fault_from_json, create_cluster_fault
from mockbroker.faults.control import load_faults
from mockbroker.state.metadata.topics import CoordinatorKind
from tests.support.brokers.faulty_broker import FaultyBroker

_REPLICATED = {"default.replication.factor": "2", "offsets.topic.replication.factor": "2"}


def _running(broker: FaultyBroker) -> list[int]:
    return sorted(broker.core.state.inter_broker.nodes)


@pytest.mark.parametrize("action", ["stop-node", "kill-node"])
def test_a_node_is_down_for_its_time(action: str) -> None:
    broker = FaultyBroker(nodes=2)
    fault = broker.faults.schedule(action, node=1, at_ms=100, for_ms=50)
    states = []
    for _ in range(4):
        states.append(_running(broker))
        broker.advance(50)

    assert states == [[0, 1], [0, 1], [0], [0, 1]]
    assert fault.hits == 1


def test_a_node_chosen_by_the_seed_is_down_again_and_again() -> None:
    broker = FaultyBroker(nodes=3)
    fault = broker.faults.schedule("kill-node", every_ms=1000, for_ms=400, times=3)
    down = []
    for _ in range(60):
        broker.advance(100)
        down += [node for node in range(3) if node not in _running(broker)]

    assert fault.hits == 3
    assert 9 <= len(down) <= 12
    assert _running(broker) == [0, 1, 2]


def test_a_node_is_chosen_of_those_that_run_and_none_if_there_is_none() -> None:
    broker = FaultyBroker(nodes=1)
    broker.faults.schedule("kill-node", node=0, for_ms=500)
    later = broker.faults.schedule("kill-node", at_ms=100, every_ms=500, for_ms=100, times=1)
    broker.advance(400)
    assert (later.hits, _running(broker)) == (0, [])
    broker.advance(400)

    assert later.hits == 1
    assert "no node is running" in later.near_misses[0]


def test_a_paused_node_handles_its_requests_at_the_end_and_in_order() -> None:
    broker = FaultyBroker(nodes=2)
    pause = broker.faults.schedule("pause-node", node=1, for_ms=500)
    broker.advance(0)
    for _ in range(2):
        broker.send(ListGroupsRequest(), 5, connection="b", node=1)
    answered = broker.call(ListGroupsRequest(), 5, connection="a") is not None
    broker.advance(499)
    before = broker.take_response("b")
    broker.advance(1)

    assert answered
    assert before is None
    assert [broker.take_response("b") is None, broker.take_response("b") is None] == [False, False]
    assert pause.hits == 1
    assert broker.core.faults is None


def test_faults_act_on_the_requests_that_a_paused_node_has_held() -> None:
    broker = FaultyBroker()
    pause = broker.faults.schedule("pause-node", node=0)
    broker.add("ListGroups", error="NOT_COORDINATOR", name="late error")
    broker.advance(0)
    broker.send(ListGroupsRequest(), 5)
    pause.remove()
    broker.advance(0)

    assert broker.take_response().error_code == 16
    assert broker.core.journal.exchanges("ListGroups")[0].faults == ("late error",)


def test_leaders_of_a_topic_move_to_the_next_replica_or_to_the_given_one() -> None:
    broker = FaultyBroker(nodes=2, config=_REPLICATED)
    before = [broker.leader("A", 0), broker.leader("A", 1)]
    broker.faults.schedule("move-leader", topic="A")
    broker.faults.schedule("move-leader", topic="B", partition=0, to=1 - broker.leader("B"))
    other = 1 - broker.leader("B")
    broker.advance(0)

    assert [broker.leader("A", 0), broker.leader("A", 1)] == [1 - leader for leader in before]
    assert broker.leader("B") == other


def test_coordinators_move() -> None:
    broker = FaultyBroker(nodes=2, config=_REPLICATED)
    request = FindCoordinatorRequest(coordinator_keys=("g",))
    before = broker.call(request, 4).coordinators[0].node_id
    broker.faults.schedule("move-coordinator", coordinator="group")
    broker.advance(0)

    assert broker.call(request, 4).coordinators[0].node_id == 1 - before
    assert broker.metadata.coordinator_id(CoordinatorKind.GROUP, "g") == 1 - before


def test_a_leader_without_another_replica_does_not_move_and_the_reason_is_reported() -> None:
    broker = FaultyBroker()
    broker.faults.schedule("move-leader", topic="A", name="no replica")
    broker.advance(0)

    with pytest.raises(AssertionError, match=r"never acted:\n  - ELIGIBLE_LEADERS_NOT_AVAILABLE"):
        broker.faults.check_hits()


def test_messages_to_a_node_are_late_and_lost_while_the_fault_lasts() -> None:
    broker = FaultyBroker(nodes=2)
    channel = broker.core.state.inter_broker
    fault = broker.faults.schedule("slow-network", node=1, latency_ms=100, loss=1.0)
    broker.advance(0)

    slow = [channel.plan_delivery(1, broker.now_ms) for _ in range(50)]
    plain = channel.plan_delivery(0, broker.now_ms)
    fault.remove()

    assert plain == channel.plan_delivery(1, broker.now_ms) == Delivery(0, 0)
    assert {delivery.loss for delivery in slow} == {Loss.REQUEST, Loss.ANSWER}
    assert max(delivery.out_ms for delivery in slow) > 20


def test_messages_of_one_link_are_lost_while_the_fault_lasts() -> None:
    broker = FaultyBroker(nodes=3)
    channel = broker.core.state.inter_broker
    broker.faults.schedule("slow-network", source=0, node=1, loss=1.0)
    broker.advance(0)

    def is_lost(source: int, to: int) -> bool:
        with channel.act_as(source):
            return channel.plan_delivery(to, broker.now_ms).loss is not None

    lost = [(source, to) for source in range(3) for to in range(3) if is_lost(source, to)]
    assert lost == [(0, 1)]


def test_messages_overtake_each_other_where_the_network_reorders_them() -> None:
    def arrivals(**options: Any) -> list[int]:
        broker = FaultyBroker(nodes=2)
        broker.faults.schedule("slow-network", latency_ms=1_000, **options)
        broker.advance(0)
        return [broker.core.state.inter_broker.plan_delivery(1, broker.now_ms).out_ms for _ in range(20)]

    in_order, reordered = arrivals(), arrivals(reorder=True)
    assert in_order == sorted(in_order)
    assert reordered != sorted(reordered)


def test_the_session_of_a_principal_ends_and_other_sessions_go_on() -> None:
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="secret";'
        ),
    }
    broker = FaultyBroker(config=config)
    for user in ("alice", "bob"):
        broker.connect(user, listener="SASL_PLAINTEXT")
        broker.call(SaslHandshakeRequest(mechanism="PLAIN"), 1, connection=user)
        token = f"\0{user}\0secret".encode()
        assert broker.call(SaslAuthenticateRequest(auth_bytes=token), 2, connection=user).session_lifetime_ms == 0
    fault = broker.faults.schedule("expire-sessions", principal="User:alice")
    nobody = broker.faults.schedule("expire-sessions", principal="User:carol", name="nobody")
    broker.advance(0)
    for user in ("alice", "bob"):
        broker.send(ListGroupsRequest(), 4, connection=user)

    assert fault.hits == 1
    assert broker.closed == {"alice": "the session of User:alice has ended"}
    assert broker.take_response("bob").error_code == 0
    assert nobody.near_misses == ("SASL_AUTHENTICATION_FAILED: User:carol has no SASL session",)


def test_the_same_seed_gives_the_same_network() -> None:
    def draw() -> list[Delivery]:
        broker = FaultyBroker(nodes=2)
        broker.faults.schedule("slow-network", latency_ms=100, loss=0.3)
        broker.advance(0)
        return [broker.core.state.inter_broker.plan_delivery(0, broker.now_ms) for _ in range(20)]

    assert draw() == draw()


def test_a_removed_fault_never_acts_and_one_whose_time_did_not_come_is_reported() -> None:
    broker = FaultyBroker(nodes=2)
    broker.faults.schedule("kill-node", node=1, at_ms=100, optional=True).remove()
    broker.faults.schedule("kill-node", node=1, at_ms=10_000, name="later")
    broker.advance(1000)

    assert _running(broker) == [0, 1]
    with pytest.raises(AssertionError, match=r"^the fault 'later' never acted:\n  its time did not come"):
        broker.faults.check_hits()
    broker.faults.clear()
    broker.faults.check_hits()


@pytest.mark.parametrize(
    ("action", "options", "message"),
    [
        ("kill", {}, "action: 'kill' is none; did you mean 'kill-node'"),
        ("kill-node", {"nod": 1}, "a fault of the cluster has no 'nod'; did you mean 'node'"),
        ("kill-node", {"node": 7}, "node: 7 is not one of 0, 1"),
        ("kill-node", {"node": "1"}, "node: expected `int | null`, got `str`"),
        ("kill-node", {"at_ms": -1}, "atMs: expected `int` >= 0"),
        ("kill-node", {"topic": "A"}, "topic: kill-node has none; it has node"),
        ("kill-node", {"every_ms": 100}, "every_ms: kill-node lasts for ever; set for_ms"),
        ("kill-node", {"every_ms": 100, "for_ms": 100}, "for_ms: 100 is not shorter than every_ms, 100"),
        ("kill-node", {"times": 2}, "times: without every_ms it happens once"),
        ("move-leader", {}, "topic: move-leader requires one"),
        ("move-leader", {"topic": "A", "for_ms": 5}, "for_ms: move-leader happens at once"),
        ("move-coordinator", {"coordinator": "groups"}, "coordinator: invalid enum value 'groups'"),
        ("slow-network", {}, "slow-network: does nothing; set latency_ms or loss"),
        ("slow-network", {"loss": 2.0}, "loss: expected `float` <= 1.0"),
        ("slow-network", {"loss": 0.5, "reorder": True}, "reorder: without latency_ms all messages arrive at once"),
        ("slow-network", {"loss": 0.5, "source": 9}, "source: 9 is not one of 0, 1"),
        ("kill-node", {"reorder": True}, "reorder: kill-node has none; it has node"),
        ("expire-sessions", {"node": 0}, "node: expire-sessions has none; it has principal"),
        ("expire-sessions", {"for_ms": 5}, "for_ms: expire-sessions happens at once"),
    ],
)
def test_a_fault_that_cannot_happen_is_refused(action: str, options: dict[str, Any], message: str) -> None:
    broker = FaultyBroker(nodes=2)
    with pytest.raises(FaultError) as caught:
        broker.faults.schedule(action, **options)

    assert message in str(caught.value)
    assert broker.faults.list() == []


@given(
    st.builds(
        ClusterFault,
        action=st.sampled_from(["kill-node", "slow-network"]),
        at_ms=st.integers(0, 1 << 40),
        for_ms=st.none() | st.integers(1, 1 << 40),
        node=st.none() | st.integers(0, 100),
        loss=st.floats(0, 1),
        name=st.text(max_size=5),
    )
)
def test_a_fault_is_equal_after_a_round_trip_through_json(fault: ClusterFault) -> None:
    assert cluster_fault_from_json(json.loads(json.dumps(fault.to_json()))) == fault


def test_lists_have_faults_of_both_kinds_in_both_forms() -> None:
    request_fault = Fault(when=When(api="Produce"), then=Then(drop="close"))
    cluster_fault = create_cluster_fault("kill-node", node=1)

    assert load_faults([request_fault, request_fault.to_json(), cluster_fault, cluster_fault.to_json()]) == (
        *(request_fault, request_fault),
        *(cluster_fault, cluster_fault),
    )
    with pytest.raises(FaultError, match=r"^fault 2: slow-network: does nothing"):
        load_faults([cluster_fault, {"action": "slow-network"}])
