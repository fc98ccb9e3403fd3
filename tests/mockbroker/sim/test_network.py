"""Calls between nodes that are delayed or lost, and the simulated network that plans them."""

from __future__ import annotations

import random

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.broker.node import Node
from mockbroker.cluster_services.inter_broker import Delivery, Loss
from mockbroker.kafka_error import KafkaError
from mockbroker.sim.coverage import Coverage
from mockbroker.sim.network import NetworkConditions, NetworkSimulator
from tests.support.brokers.broker import Broker


@pytest.mark.parametrize(
    ("loss", "handled", "answer"),
    [
        (None, [30], 1),
        (Loss.REQUEST, [], ErrorCode.NETWORK_EXCEPTION),
        (Loss.ANSWER, [30], ErrorCode.NETWORK_EXCEPTION),
    ],
)
def test_a_call_is_delayed_and_lost_in_both_directions(loss: Loss | None, handled: list[int], answer: int) -> None:
    broker = Broker(nodes=2)
    calls, sent_ms = broker.core.state.inter_broker, broker.now_ms
    calls.plan_delivery = lambda to, now_ms: Delivery(30, 50, loss)
    handled_ms: list[int] = []
    answers: list[tuple[int, int]] = []

    def handle(node: Node, now_ms: int) -> int:
        handled_ms.append(now_ms - sent_ms)
        return node.node_id

    def done(result: int | KafkaError, now_ms: int) -> None:
        answers.append((now_ms - sent_ms, result.code if isinstance(result, KafkaError) else result))

    calls.call(to=1, handle=handle, done=done, now_ms=sent_ms)
    broker.advance(1_000)

    assert handled_ms == handled
    assert answers == [(80, answer)]


@pytest.mark.parametrize("conditions", list(NetworkConditions))
def test_messages_to_a_node_keep_their_order_and_a_millisecond_each(conditions: NetworkConditions) -> None:
    network = NetworkSimulator(random.Random(1), Coverage(), on_loss=lambda: None)
    network.conditions = conditions.value

    deliveries = [(sent_ms, network.plan_delivery(0, sent_ms)) for sent_ms in (5, 5, 6, 6, 6, 40, 3_000)]

    arrivals = [sent_ms + delivery.out_ms for sent_ms, delivery in deliveries]
    answers = [arrived + delivery.back_ms for arrived, (_, delivery) in zip(arrivals, deliveries, strict=True)]
    losses = [delivery.loss for _, delivery in deliveries]
    assert arrivals == sorted(set(arrivals))
    assert answers == sorted(answers)
    assert all(loss is not None for loss in losses) or conditions is not NetworkConditions.CUT
    assert all(loss is None for loss in losses) or conditions not in (NetworkConditions.IDEAL, NetworkConditions.SLOW)
