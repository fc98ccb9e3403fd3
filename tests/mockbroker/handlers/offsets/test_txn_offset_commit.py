"""TxnOffsetCommit: offsets that take effect with their transaction."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kwire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from mockbroker.state.metadata.cluster_image import CoordinatorKind
from tests.support.brokers.broker import Broker
from tests.support.brokers.producer import Producer


def test_offsets_count_once_the_transaction_commits() -> None:
    producer = Producer()
    assert producer.commit_offset(7) == 0
    assert producer.committed() == (-1, 0)
    assert producer.committed(stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    producer.end()

    assert producer.committed(stable=True) == (7, 0)


def test_offsets_of_an_aborted_transaction_are_dropped() -> None:
    producer = Producer()
    producer.commit_offset(7)
    producer.end(commit=False)

    assert producer.committed(stable=True) == (-1, 0)


def test_an_offset_committed_meanwhile_is_newer_and_stays() -> None:
    producer = Producer()
    producer.commit_offset(7)
    rows = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 9, committed_metadata="")])]
    producer.group_coordinator(OffsetCommitRequest("g", topics=rows), 8)
    producer.end()

    assert producer.committed() == (9, 0)


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_that_wait_move_with_their_group(commit: bool) -> None:
    broker = Broker(nodes=3, topics={"t": 1}, config={"default.replication.factor": "3"})
    producer = Producer(broker)
    producer.commit_offset(7)
    former = broker.metadata.coordinator_id(CoordinatorKind.GROUP, "g")
    broker.stop_node(former)

    assert producer.committed(stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert producer.end(commit=commit) == 0
    assert producer.committed(stable=True) == (7 if commit else -1, 0)


def test_offsets_of_unknown_topics_members_and_generations_are_refused() -> None:
    producer = Producer()
    assert producer.commit_offset(7, topic="nosuch") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.commit_offset(7, generation_id_or_member_epoch=4, member_id="m") == ErrorCode.ILLEGAL_GENERATION


def test_the_group_coordinator_verifies_only_the_first_offsets_of_a_transaction() -> None:
    producer = Producer()
    broker = producer.broker
    producer.commit_offset(7)
    broker.core.state.inter_broker.latency_ms = 40

    assert producer.commit_offset(8) == 0


class IdCommitter:
    """Commits offsets in a transaction by topic ids, in version 6."""

    def __init__(self) -> None:
        self.broker = Broker(release="4.4", topics={"t": 1})
        self.producer = Producer(self.broker)
        self.topic_id = self.broker.topic("t").topic_id

    def codes(self, group_id: str, *topic_ids: bytes, epoch: int = -1, member_id: str = "") -> list[list[int]]:
        """The codes of partitions 0 and 5 of each topic, in the order of the request."""
        rows = [TxnOffsetCommitRequestPartition(index, 7) for index in (0, 5)]
        request = TxnOffsetCommitRequest(
            "tx",
            group_id,
            *self.producer.holder,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[TxnOffsetCommitRequestTopic(topic_id=topic_id, partitions=rows) for topic_id in topic_ids],
        )
        response = self.broker.call(request, 6)
        codes = {
            (topic.topic_id, row.partition_index): row.error_code
            for topic in response.topics
            for row in topic.partitions
        }
        return [[codes[topic_id, index] for index in (0, 5)] for topic_id in topic_ids]


def test_offsets_by_topic_id_have_errors_for_unknown_ids_and_partitions() -> None:
    """Pinned by the conversation other-txn-offset-commit-topic-ids."""
    committer = IdCommitter()
    unknown = b"\1" * 16

    assert committer.codes("g", committer.topic_id, unknown) == [
        [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_ID] * 2,
    ]
    assert committer.codes("", committer.topic_id) == [
        [ErrorCode.INVALID_GROUP_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    ]


def test_offsets_by_topic_id_report_missing_groups_and_stale_epochs_as_such() -> None:
    """Pinned by the conversation other-txn-offset-commit-topic-ids."""
    committer = IdCommitter()
    member_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    request = ConsumerGroupHeartbeatRequest(
        "c", member_id, 0, rebalance_timeout_ms=5_000, subscribed_topic_names=("t",), topic_partitions=[]
    )
    epoch = committer.broker.call(request, 1).member_epoch

    assert committer.codes("missing", committer.topic_id, epoch=3)[0][0] == ErrorCode.GROUP_ID_NOT_FOUND
    assert committer.codes("c", committer.topic_id, epoch=epoch + 1, member_id=member_id)[0][0] == (
        ErrorCode.STALE_MEMBER_EPOCH
    )
    assert committer.codes("c", committer.topic_id, epoch=epoch, member_id=member_id)[0][0] == ErrorCode.NONE
