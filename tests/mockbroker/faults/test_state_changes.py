"""Faults of state do what they say: members leave their groups, transactions end, epochs grow, locks expire."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker.broker.group_views import group_view
from mockbroker.faults import state_changes
from mockbroker.faults.cluster_model import _ARGUMENTS, Action
from mockbroker.faults.model import StateName
from mockbroker.faults.state_names import STATE_CHANGES
from tests.support.brokers.faulty_broker import FaultyBroker
from tests.support.brokers.group_requests import join, share, sync
from tests.support.brokers.producer import Producer
from tests.support.brokers.share_members import opened
from tests.support.brokers.streams_requests import beat


def test_every_change_is_declared_as_a_state_and_as_an_action_and_has_a_function() -> None:
    assert set(get_args(StateName)) == set(STATE_CHANGES) <= set(get_args(Action))
    assert set(get_args(Action)) == set(_ARGUMENTS)
    assert set(state_changes.CHANGES) == set(STATE_CHANGES)


def _consumer(member: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
    first = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("A",), "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest("g", member, epoch, **(first if epoch == 0 else {}))  # type: ignore[arg-type]


def _members(broker: FaultyBroker, group: str = "g") -> list[str]:
    view = group_view(broker.core.state, group)
    return [] if view is None else sorted(member.member_id for member in view.members)


def _act(broker: FaultyBroker, api: str, state: str, *, by_request: bool, **names: Any) -> Any:
    """Let a change happen with the next request of the API, or now."""
    if by_request:
        return broker.add(api, state=state, times=1, **names)
    fault = broker.faults.schedule(state, **names)
    broker.advance(0)
    return fault


@pytest.mark.parametrize("by_request", [True, False])
def test_a_fenced_member_of_a_consumer_group_is_gone_and_its_partitions_go_to_another_at_once(
    *, by_request: bool
) -> None:
    broker = FaultyBroker()
    for member in ("m1", "m2"):
        broker.call(_consumer(member, 0), 1)
    fault = _act(broker, "ConsumerGroupHeartbeat", "fence-member", by_request=by_request, group="g", member="m1")
    code = broker.call(_consumer("m1", 1), 1).error_code
    rejoined = broker.call(_consumer("m1", 0), 1)

    assert code == ErrorCode.UNKNOWN_MEMBER_ID
    assert fault.hits == 1
    assert (rejoined.error_code, _members(broker)) == (0, ["m1", "m2"])


@pytest.mark.parametrize("by_request", [True, False])
def test_a_fenced_member_of_a_share_group_is_gone(*, by_request: bool) -> None:
    broker = FaultyBroker()
    broker.call(share(0, "A", member="m1", group_id="s"), 1)
    _act(broker, "ShareGroupHeartbeat", "fence-member", by_request=by_request, group="s", member="m1")

    assert broker.call(share(1, member="m1", group_id="s"), 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert _members(broker, "s") == []


@pytest.mark.parametrize("by_request", [True, False])
def test_a_fenced_member_of_a_streams_group_is_gone(*, by_request: bool) -> None:
    broker = FaultyBroker()
    broker.core.create_topic("T", 2)
    assert broker.call(beat("m1", 0), 0).error_code == 0
    assert _members(broker) == ["m1"]
    _act(broker, "StreamsGroupHeartbeat", "fence-member", by_request=by_request, group="g", member="m1")

    assert broker.call(beat("m1", 1, {}), 0).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert _members(broker) == []


def _classic(broker: FaultyBroker) -> str:
    """A stable classic group with one member, whose id is returned."""
    member: str = broker.call(join(), 9).member_id
    broker.send(join(member), 9)
    broker.advance(3_000)
    assert broker.take_response().error_code == 0
    assert broker.call(sync(member, assigned={member: b"x"}), 5).error_code == 0
    return member


@pytest.mark.parametrize("by_request", [True, False])
def test_a_fenced_member_of_a_classic_group_is_gone_and_rejoins_without_the_session_timeout(
    *, by_request: bool
) -> None:
    broker = FaultyBroker()
    member = _classic(broker)
    _act(broker, "Heartbeat", "fence-member", by_request=by_request, group="g", member=member)
    code = broker.call(HeartbeatRequest("g", 1, member), 4).error_code
    members = _members(broker)
    broker.send(join(broker.call(join(), 9).member_id), 9)
    broker.advance(3_000)

    assert (code, members) == (ErrorCode.UNKNOWN_MEMBER_ID, [])
    assert broker.take_response().error_code == 0


def test_a_fenced_member_that_waits_in_a_join_is_answered() -> None:
    broker = FaultyBroker()
    member = broker.call(join(), 9).member_id
    broker.send(join(member), 9)
    broker.faults.schedule("fence-member", group="g", member=member)
    broker.advance(0)

    assert broker.take_response().error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("by_request", [True, False])
def test_an_expired_transaction_is_aborted_and_its_producer_fenced(*, by_request: bool) -> None:
    broker = FaultyBroker(nodes=3)
    broker.core.create_topic("t", 3)
    producer = Producer(broker)
    assert producer.produce() == 0
    _act(broker, "EndTxn", "expire-transaction", by_request=by_request, transactional_id="tx")
    code = producer.end()

    assert producer.markers() == [1]
    assert code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert producer.produce() == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.begin() == 0


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("by_request", [True, False])
def test_a_fenced_producer_has_an_older_epoch(*, by_request: bool, is_open: bool) -> None:
    broker = FaultyBroker(nodes=3)
    broker.core.create_topic("t", 3)
    producer = Producer(broker, version=3)
    epoch = producer.holder.epoch
    if is_open:
        assert producer.add(0) == [0]
    _act(broker, "AddPartitionsToTxn", "fence-producer", by_request=by_request, transactional_id="tx")
    code = producer.add(1)[0]
    broker.advance(100)

    assert code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert producer.add(1)[0] in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert producer.begin() == 0
    assert producer.holder.epoch > epoch + 1


def _acquired() -> FaultyBroker:
    """A share group "g" whose member "m1" holds three records of A-0."""
    broker = FaultyBroker()
    opened(broker)
    broker.produce("A", 3)
    assert broker.fetch("m1", 1) == "A0 0-2/1"
    return broker


@pytest.mark.parametrize(
    "names", [{"group": "g"}, {"group": "g", "topic": "A"}, {"group": "g", "topic": "A", "partition": 0}]
)
def test_expired_locks_make_records_available_with_a_higher_count(names: dict[str, Any]) -> None:
    broker = _acquired()
    fault = broker.faults.schedule("expire-locks", **names)
    broker.advance(0)

    assert fault.hits == 1
    assert broker.fetch("m2", 0, "A0") == "A0 0-2/2"
    assert broker.ack("m1", 2, {("A", 0): [(0, 2, [1])]}) == "A0 !121"


def test_locks_expire_before_the_acknowledgement_that_the_fault_matches() -> None:
    broker = _acquired()
    fault = broker.add("ShareAcknowledge", group="g", state="expire-locks")
    answer = broker.ack("m1", 2, {("A", 0): [(0, 2, [1])]})

    assert answer == "A0 !121"
    assert fault.hits == 1


@pytest.mark.parametrize(
    ("action", "names", "reason"),
    [
        ("fence-member", {"group": "none"}, "there is no group 'none'"),
        ("fence-member", {}, "there is no group with members"),
        ("fence-producer", {"transactional_id": "x"}, "there is no transactional id 'x'"),
        ("expire-transaction", {}, "there is no open transaction"),
        ("expire-locks", {"group": "g"}, "group 'g' holds no such records"),
        ("expire-locks", {}, "any share group holds no such records"),
    ],
)
def test_a_change_without_an_object_is_no_hit(action: str, names: dict[str, Any], reason: str) -> None:
    broker = FaultyBroker()
    fault = broker.faults.schedule(action, optional=True, **names)
    broker.advance(0)

    assert fault.hits == 0
    assert reason in fault.near_misses[0]


def test_a_request_whose_state_cannot_change_is_handled_and_is_no_hit() -> None:
    broker = FaultyBroker()
    fault = broker.add("Heartbeat", state="fence-member")

    assert broker.call(HeartbeatRequest("g", 1, "m"), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert fault.hits == 0
    assert "fence-member: GROUP_ID_NOT_FOUND" in fault.near_misses[0]


def test_after_a_heartbeat_its_member_is_fenced() -> None:
    broker = FaultyBroker()
    fault = broker.add("ConsumerGroupHeartbeat", state="fence-member", after=True, times=1)

    assert broker.call(_consumer("m1", 0), 1).error_code == 0
    assert (_members(broker), fault.hits) == ([], 1)


def test_the_seed_chooses_the_members_that_are_fenced_again_and_again() -> None:
    broker = FaultyBroker()
    for member in ("m1", "m2", "m3"):
        broker.call(_consumer(member, 0), 1)
    broker.faults.schedule("fence-member", every_ms=1_000, times=2)
    broker.advance(0)
    first = len(_members(broker))
    broker.advance(1_000)

    assert (first, len(_members(broker))) == (2, 1)
