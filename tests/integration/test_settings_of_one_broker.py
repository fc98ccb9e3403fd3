"""Dynamic settings of one broker act where that broker leads or coordinates, and nowhere else.

Source: the scenario settings_of_one_broker, recorded with real clusters.
"""

from __future__ import annotations

import pytest

from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from mockbroker.state.metadata.configs import ResourceKind
from mockbroker.state.metadata.topics import CoordinatorKind
from tests.support.brokers.broker import Broker
from tests.support.brokers.producer import produce, record_batch

NODES = 3
WEEK_MS = 604_800_000


def make_broker(**config: str) -> Broker:
    """Three nodes; `led-N` is led by node N, its only replica."""
    broker = Broker(nodes=NODES, config={name.replace("_", "."): value for name, value in config.items()})
    for node in range(NODES):
        broker.metadata.add_topic(broker.metadata.plan_topic(f"led-{node}", assignments={0: (node,)}))
    return broker


def add_moved(broker: Broker) -> None:
    """A topic `moved` with replicas on two nodes."""
    broker.metadata.add_topic(broker.metadata.plan_topic("moved", assignments={0: (0, 1)}))


def set_on_broker(broker: Broker, node: int, name: str, value: str) -> None:
    resource = AlterConfigsResource(ResourceKind.BROKER, str(node), [AlterableConfig(name, 0, value)])
    answer = broker.call(IncrementalAlterConfigsRequest([resource]), 1, connection=f"n{node}", node=node)
    assert answer.responses[0].error_code == 0, answer


def send(broker: Broker, name: str, size: int = 10) -> int:
    node = broker.leader(name)
    request = produce(broker.topic(name), record_batch(size=size, now_ms=broker.now_ms))
    answer = broker.call(request, 13, connection=f"n{node}", node=node)
    return int(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("mode", ["immediate", "real"])
def test_the_limit_of_batches_is_that_of_the_leader(mode: str) -> None:
    broker = make_broker(mockbroker_replication=mode)
    add_moved(broker)
    set_on_broker(broker, 1, "message.max.bytes", "200")

    assert [send(broker, f"led-{node}", 300) for node in range(NODES)] == [0, 10, 0]
    assert send(broker, "moved", 300) == 0
    broker.core.state.metadata.change_leader(broker.topic("moved"), 0, 1)
    broker.advance(1_000)
    assert send(broker, "moved", 300) == 10


@pytest.mark.parametrize("mode", ["immediate", "real"])
def test_retention_is_that_of_the_leader(mode: str) -> None:
    broker = make_broker(mockbroker_replication=mode)
    for node in range(NODES):
        send(broker, f"led-{node}")
    set_on_broker(broker, 2, "log.retention.ms", "60000")
    broker.advance(600_000)

    assert [broker.leader_log(f"led-{node}").start_offset for node in range(NODES)] == [0, 0, 1]
    broker.advance(WEEK_MS)
    assert [broker.leader_log(f"led-{node}").start_offset for node in range(NODES)] == [1, 1, 1]


def test_retention_is_that_of_the_new_leader_after_an_election() -> None:
    broker = make_broker()
    add_moved(broker)
    send(broker, "moved")
    set_on_broker(broker, 1, "log.retention.ms", "60000")
    broker.advance(600_000)
    assert broker.leader_log("moved").start_offset == 0

    broker.core.state.metadata.change_leader(broker.topic("moved"), 0, 1)
    broker.advance(600_000)

    assert broker.leader_log("moved").start_offset == 1


def test_the_least_number_of_replicas_in_sync_is_that_of_the_leader() -> None:
    broker = Broker(nodes=2, features=("eligible.leader.replicas.version=0",))
    for name, replicas in (("a", (0, 1)), ("b", (1, 0))):
        broker.metadata.add_topic(broker.metadata.plan_topic(name, assignments={0: replicas}))
        partition = broker.topic(name).partitions[0]
        partition.isr = replicas[:1]
    set_on_broker(broker, 1, "min.insync.replicas", "2")

    assert [send(broker, name) for name in ("a", "b")] == [0, 19]


def test_a_coordinator_uses_its_own_assignment_interval() -> None:
    broker = make_broker()
    home = broker.metadata.coordinator_id(CoordinatorKind.GROUP, "g")
    for node in range(NODES):
        value = "4000" if node == home else "9000"
        set_on_broker(broker, node, "group.consumer.assignment.interval.ms", value)

    def heartbeat(member: str, epoch: int) -> int:
        request = ConsumerGroupHeartbeatRequest(
            "g",
            member,
            epoch,
            None,
            None,
            60_000,
            ("led-0",) if not epoch else None,
            None,
            None,
            [] if not epoch else None,
        )
        return int(broker.call(request, 1, connection=f"n{home}", node=home).member_epoch)

    first = heartbeat("m1", 0)
    second = heartbeat("m2", 0)
    assert heartbeat("m1", first) == first
    broker.advance(3_999)
    assert heartbeat("m1", first) == first
    broker.advance(1)
    assert heartbeat("m1", first) > second
