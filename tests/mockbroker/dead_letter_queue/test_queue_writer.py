"""The writes to dead-letter queues: requests, retries and their ends (share-semantics 9.2 and 9.3)."""

from __future__ import annotations

import pytest

from mockbroker.cluster_services.inter_broker import Delivery, Loss
from mockbroker.state.metadata.configs import Resource, ResourceKind
from mockbroker.state.share.dead_letter import DeadLetter, DeadLetterCause
from mockbroker.state.share.in_flight_batch import NO_MEMBER, InFlightState, RecordState
from mockbroker.state.share.share_partition import SharePartition
from tests.support.brokers.broker import Broker
from tests.support.brokers.share_partitions import settings

QUEUE = "dlq.t"


class DeadLetters:
    """A cluster of three brokers, and dead letters of node 0 with their results.

    results: offset, whether it was written, and after how many ms.
    """

    def __init__(self) -> None:
        self.broker = Broker(nodes=3, topics={"t": 1, QUEUE: 1}, release="4.4", features=("share.version=2",))
        self.configure(ResourceKind.TOPIC, QUEUE, {"errors.deadletterqueue.group.enable": "true"})
        self.configure(ResourceKind.GROUP, "g", {"errors.deadletterqueue.topic.name": QUEUE})
        self.started_ms = self.broker.now_ms
        self.results: list[tuple[int, bool, int]] = []
        key = ("g", self.broker.topic("t").topic_id, 0)
        self._partition = SharePartition(settings(), key=key)

    def configure(self, kind: ResourceKind, name: str, texts: dict[str, str]) -> None:
        self.broker.core.state.configs.set_overrides(Resource(kind, name), texts)

    def send(self, *offsets: int) -> None:
        queues = self.broker.core.state.nodes[0].dead_letter_queues
        for offset in offsets:
            state = InFlightState(RecordState.ARCHIVING, 1, NO_MEMBER)
            dead_letter = DeadLetter(state, offset, offset, 1, DeadLetterCause.REJECTED)

            def done(is_written: bool, now_ms: int, offset: int = offset) -> None:
                self.results.append((offset, is_written, now_ms - self.started_ms))

            queues.send_dead_letter(self._partition, dead_letter, done=done, now_ms=self.broker.now_ms)

    def written(self) -> list[list[int]]:
        """The offsets in the queue, by batch."""
        log = self.broker.leader_log(QUEUE)
        batches = log.batches_below(log.end_offset)
        return [
            [int(dict(record.headers)["__dlq.errors.offset"] or b"") for record in one.records()] for one in batches
        ]


@pytest.fixture
def dead_letters() -> DeadLetters:
    return DeadLetters()


def test_9_2_dead_letters_that_wait_for_a_request_are_written_as_one_batch(dead_letters: DeadLetters) -> None:
    dead_letters.send(0, 1, 2)
    assert dead_letters.results == []  # Nodes exchange messages: no answer before a message has been delivered.
    dead_letters.broker.advance(100)

    assert dead_letters.written() == [[0], [1, 2]]
    assert [is_written for _, is_written, _ in dead_letters.results] == [True] * 3


def test_9_3_a_queue_without_leader_is_tried_four_times_more_with_doubling_pauses(dead_letters: DeadLetters) -> None:
    dead_letters.broker.kill_node(dead_letters.broker.leader(QUEUE))
    dead_letters.broker.advance(20_000)  # Its session has expired.
    dead_letters.started_ms = dead_letters.broker.now_ms
    dead_letters.send(0)
    dead_letters.broker.advance(100_000)

    [(offset, is_written, after_ms)] = dead_letters.results
    assert (offset, is_written) == (0, False)
    assert 30_000 * 0.8 <= after_ms <= 30_000 * 1.2


def test_9_3_a_dead_letter_follows_the_leader_of_its_queue(dead_letters: DeadLetters) -> None:
    broker = dead_letters.broker
    leader = broker.leader(QUEUE)
    broker.core.kill_node(leader, broker.now_ms)
    dead_letters.send(0)
    broker.advance(1_000)
    broker.core.start_node(leader, broker.now_ms)
    broker.advance(10_000)

    assert dead_letters.written() == [[0]]
    assert [is_written for _, is_written, _ in dead_letters.results] == [True]


def test_9_3_a_lost_answer_writes_the_dead_letter_twice(dead_letters: DeadLetters) -> None:
    channel, losses = dead_letters.broker.core.state.inter_broker, [Loss.ANSWER]
    channel.plan_delivery = lambda to, now_ms: Delivery(0, 0, losses.pop() if losses else None)
    dead_letters.send(0)
    dead_letters.broker.advance(10_000)

    assert dead_letters.written() == [[0], [0]]
    assert [is_written for _, is_written, _ in dead_letters.results] == [True]


def test_9_3_a_queue_that_is_deleted_between_attempts_is_given_up(dead_letters: DeadLetters) -> None:
    broker = dead_letters.broker
    broker.core.kill_node(broker.leader(QUEUE), broker.now_ms)
    dead_letters.send(0)
    broker.advance(1_000)
    broker.metadata.delete_topic(broker.topic(QUEUE))
    broker.advance(10_000)

    assert [is_written for _, is_written, _ in dead_letters.results] == [False]


def test_9_3_an_unusable_queue_is_refused_at_once(dead_letters: DeadLetters) -> None:
    dead_letters.configure(ResourceKind.GROUP, "g", {"errors.deadletterqueue.topic.name": "other"})
    dead_letters.send(0)

    assert dead_letters.results == [(0, False, 0)]


def test_9_5_a_node_that_ends_reports_nothing(dead_letters: DeadLetters) -> None:
    dead_letters.send(0)
    dead_letters.broker.core.kill_node(0, dead_letters.broker.now_ms)
    dead_letters.broker.advance(60_000)

    assert dead_letters.results == []
