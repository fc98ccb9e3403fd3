"""The persister's retries, and its errors for a share-partition leader (share-semantics 2.1 and 7.6)."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.persisters.default import OperationKind, Persister, leader_error
from mockbroker.state.metadata.topics import CoordinatorKind
from mockbroker.state.share.state_batches import StateBatch
from mockbroker.state.share_coordinator.share_coordinator import ShareKey, StateSummary, StateWrite, StoredState
from tests.support.brokers.broker import Broker


class Answers:
    """Collects outcomes with their times since the start."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.started_ms = broker.now_ms
        self.codes: list[ErrorCode] = []
        self.at_ms: list[int] = []

    def done(self, answer: StoredState | StateSummary | KafkaError | None, now_ms: int) -> None:
        self.codes.append(answer.code if isinstance(answer, KafkaError) else ErrorCode.NONE)
        self.at_ms.append(now_ms - self.started_ms)


@pytest.fixture
def broker() -> Broker:
    return Broker(topics={"t": 1}, nodes=3)


def _persister(broker: Broker, node: int = 0) -> Persister:
    return broker.core.state.nodes[node].persister


def _key(broker: Broker, partition: int = 0) -> ShareKey:
    return ShareKey("g", broker.topic("t").topic_id, partition)


def test_a_refusal_that_may_pass_is_tried_four_times_more_with_doubling_pauses(broker: Broker) -> None:
    answers = Answers(broker)
    _persister(broker).read_summary(_key(broker, 7), done=answers.done, now_ms=broker.now_ms)
    assert answers.codes == []  # Nodes exchange messages: no answer before a message has been delivered.
    broker.advance(60_000)

    assert answers.codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert 30_000 * 0.8 <= answers.at_ms[0] <= 30_000 * 1.2


def test_a_final_refusal_comes_back_at_once(broker: Broker) -> None:
    answers = Answers(broker)
    _persister(broker, 1).read_states(_key(broker), leader_epoch=0, done=answers.done, now_ms=broker.now_ms)
    assert answers.codes == []
    broker.advance(60_000)

    assert answers.codes == [ErrorCode.INVALID_REQUEST]
    assert answers.at_ms == [0]


def test_a_topic_that_comes_into_being_meanwhile_is_found_by_a_retry(broker: Broker) -> None:
    answers = Answers(broker)
    _persister(broker).initialize_states(_key(broker, 1), state_epoch=1, done=answers.done, now_ms=broker.now_ms)
    broker.advance(2_000)
    broker.metadata.add_partitions(broker.topic("t"), broker.metadata.plan_partitions(broker.topic("t"), 2))
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


class Post:
    """Records the requests between nodes: at what time, and with how many operations."""

    def __init__(self, broker: Broker) -> None:
        self.sent: list[tuple[int, int]] = []
        calls = broker.core.state.inter_broker
        calls.latency_ms = 10
        persister = _persister(broker)
        send = persister._send_batch

        def noted(target: tuple[int, OperationKind], operations: list[Any], now_ms: int) -> None:
            self.sent.append((now_ms - broker.now_ms, len(operations)))
            send(target, operations, now_ms)

        persister._send_batch = noted  # type: ignore[method-assign]


def test_7_6_what_queues_up_behind_a_message_of_its_kind_travels_together() -> None:
    broker = Broker(topics={"t": 4}, config={"share.coordinator.state.topic.num.partitions": "1"})
    answers, post = Answers(broker), Post(broker)
    persister = _persister(broker)
    started_ms = broker.now_ms
    for index in range(4):
        persister.initialize_states(_key(broker, index), state_epoch=1, done=answers.done, now_ms=started_ms)
    persister.read_summary(_key(broker), done=answers.done, now_ms=started_ms)
    sizes = [size for _, size in post.sent]
    broker.advance(100)

    assert sizes == [1, 1]  # The first initialisation, and a summary, which is another kind.
    assert [size for _, size in post.sent] == [1, 1, 3]
    assert sorted(answers.at_ms) == [20, 20, 40, 40, 40]
    assert set(answers.codes) == {ErrorCode.NONE}


def test_7_6_groups_do_not_share_a_message_and_the_first_answer_frees_the_way() -> None:
    broker = Broker(topics={"t": 2}, config={"share.coordinator.state.topic.num.partitions": "1"})
    answers, post = Answers(broker), Post(broker)
    persister = _persister(broker)
    first, second = _key(broker), _key(broker, 1)
    for key in (first, second, second._replace(group_id="h"), first._replace(group_id="h")):
        persister.initialize_states(key, state_epoch=1, done=answers.done, now_ms=broker.now_ms)
    broker.advance(100)

    assert [size for _, size in post.sent] == [1, 1, 2]


def test_7_6_where_one_message_asks_twice_for_a_share_partition_both_hear_the_later_answer() -> None:
    broker = Broker(topics={"t": 1}, config={"share.coordinator.state.topic.num.partitions": "1"})
    answers = Answers(broker)
    persister = _persister(broker)
    for epoch in (1, 3, 2):  # The second succeeds and the third is fenced; both travel together.
        persister.initialize_states(_key(broker), state_epoch=epoch, done=answers.done, now_ms=broker.now_ms)
    broker.advance(0)

    assert answers.codes == [ErrorCode.NONE, ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_STATE_EPOCH]


def test_7_6_in_a_cold_cluster_the_coordinator_is_looked_for_and_its_topic_made() -> None:
    broker = Broker(topics={"t": 1}, config={"mockbroker.cold.coordinators": "true"})
    answers = Answers(broker)
    _persister(broker).initialize_states(_key(broker), state_epoch=1, done=answers.done, now_ms=broker.now_ms)
    broker.advance(3_000)

    assert answers.codes == [ErrorCode.NONE]
    assert 1_600 <= answers.at_ms[0] <= 2_400


def test_7_6_where_all_brokers_are_fenced_the_coordinator_cannot_be_looked_for() -> None:
    """Source: Kafka's PersisterStateManager.SendThread.generateRequests, which does not try again."""
    broker = Broker(topics={"t": 1}, nodes=2, config={"mockbroker.cold.coordinators": "true"})
    answers = Answers(broker)
    broker.metadata.fenced.update(broker.metadata.node_ids)
    _persister(broker).initialize_states(_key(broker), state_epoch=1, done=answers.done, now_ms=broker.now_ms)
    assert answers.codes == []
    broker.advance(0)

    assert answers.codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    broker.metadata.fenced.clear()
    _persister(broker).initialize_states(_key(broker), state_epoch=1, done=answers.done, now_ms=broker.now_ms)
    broker.advance(3_000)
    assert answers.codes[1:] == [ErrorCode.NONE]


@pytest.mark.parametrize(("release", "start"), [("4.3", 0), ("4.4", 5)])
def test_7_6_a_write_that_is_tried_again_may_undo_a_later_one(release: str, start: int) -> None:
    """As three nodes of 4.3.0 were seen to do: see docs/simulator.md. In 4.4.0 the start offset is not lowered."""
    broker = Broker(topics={"t": 1}, nodes=3, config={"default.replication.factor": "3"}, release=release)
    state = broker.core.state
    key = _key(broker)
    old = state.metadata.coordinator_id(CoordinatorKind.SHARE, str(key))
    asking = next(node_id for node_id in range(3) if node_id != old)
    persister, answers = state.nodes[asking].persister, Answers(broker)
    persister.initialize_states(key, state_epoch=1, done=answers.done, now_ms=broker.now_ms)
    broker.advance(0)

    def write(start: int, first: int, last: int) -> None:
        batch = StateBatch(first, last, 2, 1)
        persister.write_states(key, StateWrite(1, 0, start, 0, [batch]), done=answers.done, now_ms=broker.now_ms)

    def stored() -> tuple[int, list[tuple[int, int]]]:
        node_id = state.metadata.coordinator_id(CoordinatorKind.SHARE, str(key))
        held = state.nodes[node_id].share_coordinator.find_state(key)
        assert held is not None
        return held.start_offset, [(batch.first, batch.last) for batch in held.batches]

    broker.kill_node(old)
    write(0, 5, 5)
    broker.advance(9_000)  # Another node coordinates; the write comes again after 14 seconds or so.
    assert answers.codes == [ErrorCode.NONE]
    write(0, 0, 4)
    broker.advance(0)
    write(5, 6, 6)
    broker.advance(0)
    assert stored() == (5, [(6, 6)])
    broker.advance(10_000)

    assert answers.codes == [ErrorCode.NONE] * 4
    assert stored() == (start, [(5, 6)])
