"""The persister's retries, and what it tells a share-partition leader (share-semantics 2.1 and 7.6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.persister import leader_error
from mockbroker.state.share_coordinator import ShareKey, Stored, Summary
from tests.mockbroker.broker import Broker


class Answers:
    """Collects outcomes with their times since the start."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.started_ms = broker.now_ms
        self.codes: list[ErrorCode] = []
        self.at_ms: list[int] = []

    def done(self, answer: Stored | Summary | KafkaError | None, now_ms: int) -> None:
        self.codes.append(answer.code if isinstance(answer, KafkaError) else ErrorCode.NONE)
        self.at_ms.append(now_ms - self.started_ms)


@pytest.fixture
def broker() -> Broker:
    return Broker(topics={"t": 1}, nodes=3)


def _key(broker: Broker, partition: int = 0) -> ShareKey:
    topic = broker.core.state.metadata.topic("t")
    assert topic is not None
    return ShareKey("g", topic.topic_id, partition)


def _persister_calls(broker: Broker, answers: Answers, call: Callable[[], None]) -> None:
    call()
    assert answers.codes == []  # Law 6: nothing is answered before a message has travelled.
    broker.advance(60_000)


def test_a_refusal_that_may_pass_is_tried_five_times_more_with_doubling_pauses(broker: Broker) -> None:
    answers = Answers(broker)
    persister = broker.core.state.nodes[0].persister

    _persister_calls(
        broker, answers, lambda: persister.summary(_key(broker, 7), done=answers.done, now_ms=broker.now_ms)
    )

    assert answers.codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert 31_000 * 0.8 <= answers.at_ms[0] <= 31_000 * 1.2


def test_a_final_refusal_comes_back_at_once(broker: Broker) -> None:
    answers = Answers(broker)
    persister = broker.core.state.nodes[1].persister

    _persister_calls(
        broker, answers, lambda: persister.read(_key(broker), leader_epoch=0, done=answers.done, now_ms=broker.now_ms)
    )

    assert answers.codes == [ErrorCode.INVALID_REQUEST]
    assert answers.at_ms == [0]


def test_a_topic_that_comes_into_being_meanwhile_is_found_by_a_retry(broker: Broker) -> None:
    answers = Answers(broker)
    state = broker.core.state
    topic = state.metadata.topic("t")
    assert topic is not None
    state.nodes[0].persister.initialize(_key(broker, 1), state_epoch=1, done=answers.done, now_ms=broker.now_ms)
    broker.advance(2_000)
    state.metadata.add_partitions(topic, 2)
    broker.advance(10_000)

    assert answers.codes == [ErrorCode.NONE]


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (ErrorCode.NOT_COORDINATOR, 15),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 15),
        (ErrorCode.GROUP_ID_NOT_FOUND, 69),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3),
        (ErrorCode.FENCED_STATE_EPOCH, 6),
        (ErrorCode.FENCED_LEADER_EPOCH, 6),
        (ErrorCode.INVALID_REQUEST, -1),
    ],
)
def test_2_1_what_a_leader_makes_of_refusals(refusal: ErrorCode, code: int) -> None:
    assert leader_error(KafkaError(refusal)) == code
