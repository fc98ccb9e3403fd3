"""Messages between nodes travel by the queue, and never inside the handler that sent them."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from mockbroker.cluster_services.inter_broker import DelayedAnswer, Delivery, InterBrokerChannel, Loss
from mockbroker.kafka_error import KafkaError


def _calls(latency_ms: int = 0) -> InterBrokerChannel[str]:
    return InterBrokerChannel({1: "node one"}, latency_ms=latency_ms)


def _deliver(calls: InterBrokerChannel[str], now_ms: int) -> None:
    while (due := calls.next_deadline_ms()) is not None and due <= now_ms:
        calls.expire(now_ms=due)


def test_a_call_is_not_handled_before_it_is_delivered() -> None:
    calls = _calls()
    seen: list[object] = []
    calls.call(to=1, handle=lambda node, now_ms: (node, now_ms), done=lambda answer, _: seen.append(answer), now_ms=5)

    assert seen == []
    _deliver(calls, 5)
    assert seen == [("node one", 5)]


def test_an_answer_comes_back_after_the_latency_of_both_ways() -> None:
    calls = _calls(latency_ms=10)
    answered: list[int] = []
    calls.call(to=1, handle=lambda node, now_ms: None, done=lambda answer, at: answered.append(at), now_ms=0)

    _deliver(calls, 19)
    assert answered == []
    _deliver(calls, 20)
    assert answered == [20]


def test_a_refusal_arrives_as_a_value() -> None:
    calls = _calls()
    answers: list[object] = []

    def refuse(node: str, now_ms: int) -> None:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, "epoch 1, stored 2")

    calls.call(to=1, handle=refuse, done=lambda answer, _: answers.append(answer), now_ms=0)
    _deliver(calls, 0)

    assert isinstance(answers[0], KafkaError)
    assert answers[0].code is ErrorCode.FENCED_STATE_EPOCH


def test_messages_of_one_time_are_delivered_in_the_order_they_were_sent() -> None:
    calls = _calls()
    order: list[str] = []
    for name in ("first", "second", "third"):
        calls.schedule(7, lambda _, name=name: order.append(name), now_ms=0)  # type: ignore[misc]

    _deliver(calls, 7)

    assert order == ["first", "second", "third"]


def test_what_a_delivery_sends_waits_for_the_next_delivery() -> None:
    calls = _calls()
    order: list[str] = []

    def first(now_ms: int) -> None:
        calls.schedule(0, lambda _: order.append("consequence"), now_ms=now_ms)
        order.append("first")

    calls.schedule(0, first, now_ms=0)
    calls.schedule(0, lambda _: order.append("second"), now_ms=0)
    calls.expire(now_ms=0)

    assert order == ["first", "second"]
    calls.expire(now_ms=0)
    assert order == ["first", "second", "consequence"]


def test_a_call_to_a_paused_node_is_given_up_and_handled_later_for_nobody() -> None:
    calls = InterBrokerChannel({1: "node one"}, request_timeout_ms=100)
    handled: list[int] = []
    answers: list[object] = []
    calls.pause(1)
    calls.call(to=1, handle=lambda _, now_ms: handled.append(now_ms), done=lambda it, _: answers.append(it), now_ms=0)
    _deliver(calls, 100)
    (answer,) = answers
    calls.resume(1, now_ms=150)
    _deliver(calls, 150)

    assert isinstance(answer, KafkaError)
    assert answer.code is ErrorCode.NETWORK_EXCEPTION
    assert handled == [150]
    assert answers == [answer]


def test_a_call_to_a_node_that_goes_on_in_time_is_answered() -> None:
    calls = _calls()
    answers: list[object] = []
    calls.pause(1)
    calls.call(to=1, handle=lambda node, _: node, done=lambda it, at: answers.append((it, at)), now_ms=0)
    _deliver(calls, 50)
    calls.resume(1, now_ms=50)
    _deliver(calls, 40_000)

    assert answers == [("node one", 50)]


def test_actions_and_answers_of_a_paused_node_wait_and_keep_their_order() -> None:
    calls = InterBrokerChannel({1: "node one", 2: "node two"})
    seen: list[str] = []
    with calls.act_as(2):
        calls.schedule(10, lambda _: seen.append("timer"), now_ms=0)
        calls.call(to=1, handle=lambda node, _: node, done=lambda _, at: seen.append(f"answer at {at}"), now_ms=0)
    calls.schedule(20, lambda _: seen.append("other"), now_ms=0)
    calls.pause(2)
    _deliver(calls, 30)
    calls.resume(2, now_ms=30)
    _deliver(calls, 30)

    assert seen == ["other", "answer at 30", "timer"]


def test_what_an_action_schedules_belongs_to_the_same_node() -> None:
    calls = _calls()
    seen: list[int] = []
    with calls.act_as(1):
        calls.schedule(0, lambda at: calls.schedule(5, seen.append, now_ms=at), now_ms=0)
    _deliver(calls, 0)
    calls.pause(1)
    _deliver(calls, 10)

    assert seen == []


def test_a_handler_may_answer_later_and_the_answer_takes_the_way_back() -> None:
    calls = _calls(latency_ms=10)
    delayed, answers = DelayedAnswer(), list[object]()
    calls.call(to=1, handle=lambda _node, _now: delayed, done=lambda it, at: answers.append((it, at)), now_ms=0)
    _deliver(calls, 500)
    before = list(answers)

    delayed.send("late", 500)
    _deliver(calls, 509)
    on_its_way = list(answers)
    _deliver(calls, 510)

    assert (before, on_its_way) == ([], [])
    assert answers == [("late", 510)]


def test_a_late_answer_can_be_lost() -> None:
    calls = _calls()
    calls.plan_delivery = lambda _to, _now_ms: Delivery(0, 5, Loss.ANSWER)
    delayed, answers = DelayedAnswer(), list[object]()
    calls.call(to=1, handle=lambda _node, _now: delayed, done=lambda it, _: answers.append(it), now_ms=0)
    _deliver(calls, 100)

    delayed.send("lost", 100)
    _deliver(calls, 105)

    (answer,) = answers
    assert isinstance(answer, KafkaError)
    assert answer.code is ErrorCode.NETWORK_EXCEPTION
