"""Calls between nodes that are late or lost, and the weather that decides which."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.calls import Fate, Loss
from mockbroker.kafka_error import KafkaError
from mockbroker.node import Node
from mockbroker.sim.coverage import Coverage
from mockbroker.sim.weather import Sky, Weather
from tests.mockbroker.broker import Broker


class Call:
    """One call to node 1: when it was handled, and what came back when, since its sending."""

    def __init__(self, fate: Callable[[int, int], Fate]) -> None:
        self.broker = Broker(nodes=2)
        self.sent_ms = self.broker.now_ms
        self.handled: list[int] = []
        self.answers: list[tuple[int, int | ErrorCode]] = []
        calls = self.broker.core.state.calls
        calls.fate = fate
        calls.call(to=1, handle=self._handle, done=self._done, now_ms=self.sent_ms)
        self.broker.advance(1_000)

    def _handle(self, node: Node, now_ms: int) -> int:
        self.handled.append(now_ms - self.sent_ms)
        return node.node_id

    def _done(self, answer: int | KafkaError, now_ms: int) -> None:
        self.answers.append((now_ms - self.sent_ms, answer.code if isinstance(answer, KafkaError) else answer))


def test_a_call_takes_its_time_out_and_back() -> None:
    call = Call(lambda to, now_ms: Fate(30, 50))

    assert call.handled == [30]
    assert call.answers == [(80, 1)]


def test_a_lost_request_is_not_handled_and_its_sender_hears_of_it() -> None:
    call = Call(lambda to, now_ms: Fate(30, 50, Loss.REQUEST))

    assert call.handled == []
    assert call.answers == [(80, ErrorCode.NETWORK_EXCEPTION)]


def test_a_request_whose_answer_is_lost_was_handled_all_the_same() -> None:
    call = Call(lambda to, now_ms: Fate(30, 50, Loss.ANSWER))

    assert call.handled == [30]
    assert call.answers == [(80, ErrorCode.NETWORK_EXCEPTION)]


@pytest.mark.parametrize("sky", list(Sky))
def test_messages_to_a_node_keep_their_order_and_a_millisecond_each(sky: Sky) -> None:
    weather = Weather(random.Random(1), Coverage())
    weather.sky = sky

    fates = [(sent_ms, weather.fate(0, sent_ms)) for sent_ms in (5, 5, 6, 6, 6, 40, 3_000)]

    arrivals = [sent_ms + fate.out_ms for sent_ms, fate in fates]
    answers = [arrived + fate.back_ms for arrived, (_, fate) in zip(arrivals, fates, strict=True)]
    assert arrivals == sorted(set(arrivals))
    assert answers == sorted(answers)
    assert all(fate.loss is not None for _, fate in fates) or sky is not Sky.CUT
    assert all(fate.loss is None for _, fate in fates) or sky not in (Sky.CLEAR, Sky.WINDY)
