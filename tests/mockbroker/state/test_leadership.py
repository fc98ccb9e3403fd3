"""Elections: who may lead after replicas went, came back, crashed, or were reassigned."""

from __future__ import annotations

import random

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.config import BrokerConfig
from mockbroker.kafka_error import KafkaError
from mockbroker.state import leadership
from mockbroker.state.leadership import NO_LEADER, Election, Rules
from mockbroker.state.metadata import Metadata, Partition
from mockbroker.state.reassignment import cancel, reassign


class Cluster:
    """Four nodes, and one partition on the first ones."""

    def __init__(
        self, replicas: tuple[int, ...] = (0, 1), *, least: int = 1, unclean: bool = False, has_elr: bool = True
    ) -> None:
        self.metadata = Metadata(range(4), BrokerConfig(), random.Random(1))
        self.topic = self.metadata.create_topic("t", assignments={0: replicas})
        self.rules = Rules(has_elr=has_elr, least_in_sync=lambda topic: least, may_be_unclean=lambda topic: unclean)

    @property
    def partition(self) -> Partition:
        return self.topic.partitions[0]

    def stop(self, *nodes: int) -> None:
        for node in nodes:
            leadership.fence(self.metadata, node, self.rules)

    def start(self, node: int, *, has_crashed: bool = False) -> None:
        if has_crashed:
            leadership.fence(self.metadata, node, self.rules, has_crashed=True)
        leadership.unfence(self.metadata, node, self.rules)
        leadership.expand(self.metadata, self.rules, running=set(range(4)) - self.metadata.fenced)

    def elect(self, election: Election, index: int = 0) -> ErrorCode:
        try:
            leadership.elect(self.metadata, "t", index, election, self.rules)
        except KafkaError as refusal:
            return refusal.code
        return ErrorCode.NONE

    def reassign(self, *replicas: int, may_change_factor: bool = True) -> None:
        reassign(self.metadata, "t", 0, replicas, self.rules, may_change_factor=may_change_factor)
        leadership.expand(self.metadata, self.rules, running=set(range(4)) - self.metadata.fenced)


def test_a_replica_that_lacks_records_leads_where_the_topic_allows_it() -> None:
    for unclean, leader in ((True, 1), (False, NO_LEADER)):
        cluster = Cluster(unclean=unclean)
        cluster.stop(1, 0)
        cluster.start(1)

        assert cluster.partition.leader == leader


def test_a_broker_that_goes_is_followed_uncleanly_at_once_by_one_that_lives() -> None:
    cluster = Cluster((0, 1), unclean=True)
    cluster.partition.isr = (0,)
    cluster.stop(0)

    assert (cluster.partition.leader, cluster.partition.isr, cluster.partition.elr) == (1, (1,), ())


def test_below_the_minimum_those_who_left_are_eligible() -> None:
    cluster = Cluster((0, 1, 2), least=3)
    cluster.stop(2, 1)

    assert (cluster.partition.isr, sorted(cluster.partition.elr)) == ((0,), [1, 2])


def test_an_eligible_replica_leads_when_nobody_is_in_sync() -> None:
    cluster = Cluster(least=2)
    cluster.stop(1, 0)
    assert (cluster.partition.isr, cluster.partition.last_known_elr) == ((), (0,))
    leadership.unfence(cluster.metadata, 1, cluster.rules)

    assert (cluster.partition.leader, cluster.partition.isr) == (1, (1,))
    assert (cluster.partition.elr, cluster.partition.last_known_elr) == ((0,), ())


def test_who_has_crashed_is_eligible_no_more_and_the_last_leader_leads_for_want_of_others() -> None:
    cluster = Cluster(least=2)
    cluster.stop(1, 0)
    cluster.start(1, has_crashed=True)
    assert (cluster.partition.leader, cluster.partition.elr) == (NO_LEADER, (0,))
    cluster.start(0, has_crashed=True)

    assert (cluster.partition.leader, sorted(cluster.partition.isr)) == (0, [0, 1])


def test_without_eligible_replicas_the_last_in_sync_stays_in_the_list() -> None:
    cluster = Cluster(least=2, has_elr=False)
    cluster.stop(1, 0)
    assert (cluster.partition.isr, cluster.partition.elr, cluster.partition.leader) == ((0,), (), NO_LEADER)
    cluster.start(1)
    assert cluster.partition.leader == NO_LEADER
    cluster.start(0)

    assert cluster.partition.leader == 0


def test_who_follows_a_dead_leader_is_not_in_sync_with_it() -> None:
    cluster = Cluster((0, 1, 2))
    cluster.stop(1)
    leadership.unfence(cluster.metadata, 1, cluster.rules)
    leadership.expand(cluster.metadata, cluster.rules, running={1, 2, 3})

    assert cluster.partition.isr == (0, 2)


def test_elections_on_request_say_why_they_do_not_take_place() -> None:
    cluster = Cluster()
    assert cluster.elect(Election.PREFERRED) is ErrorCode.ELECTION_NOT_NEEDED
    assert cluster.elect(Election.UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED
    assert cluster.elect(Election.PREFERRED, 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.stop(0)
    assert cluster.elect(Election.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    cluster.stop(1)

    assert cluster.elect(Election.UNCLEAN) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_the_preferred_replica_takes_its_place_on_request() -> None:
    cluster = Cluster()
    cluster.stop(0)
    cluster.start(0)
    assert cluster.partition.leader == 1

    assert cluster.elect(Election.PREFERRED) is ErrorCode.NONE
    assert (cluster.partition.leader, cluster.partition.leader_epoch) == (0, 2)


def test_a_reassignment_ends_when_the_new_replicas_are_in_sync() -> None:
    cluster = Cluster()
    cluster.reassign(2, 3)

    partition = cluster.partition
    assert (partition.replicas, sorted(partition.isr), partition.is_reassigned) == ((2, 3), [2, 3], False)
    assert (partition.leader, partition.leader_epoch) == (2, 1)


def test_a_reassignment_waits_for_a_node_that_is_down() -> None:
    cluster = Cluster()
    cluster.stop(3)
    cluster.reassign(2, 3)
    partition = cluster.partition
    assert (partition.replicas, partition.adding, partition.removing) == ((2, 3, 0, 1), (2, 3), (0, 1))
    assert (partition.leader, sorted(partition.isr)) == (0, [0, 1, 2])
    cluster.start(3)

    assert (partition.replicas, partition.leader) == ((2, 3), 2)


def test_fewer_copies_than_before_have_to_be_all_in_sync() -> None:
    cluster = Cluster((0, 1, 2))
    cluster.stop(2)
    cluster.reassign(2)
    assert cluster.partition.removing == (0, 1)
    cluster.start(2)

    assert (cluster.partition.replicas, cluster.partition.leader) == ((2,), 2)


def test_a_reassignment_that_is_taken_back_leaves_the_old_replicas() -> None:
    cluster = Cluster()
    cluster.stop(3)
    cluster.reassign(3, 1)
    cancel(cluster.metadata, "t", 0, cluster.rules)

    assert (cluster.partition.replicas, cluster.partition.isr) == ((1, 0), (0, 1))
    with pytest.raises(KafkaError) as refused:
        cancel(cluster.metadata, "t", 0, cluster.rules)
    assert refused.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize(("unclean", "is_refused"), [(False, True), (True, False)])
def test_a_reassignment_is_taken_back_at_the_price_of_records_where_the_topic_allows_it(
    unclean: bool, is_refused: bool
) -> None:
    cluster = Cluster(unclean=unclean)
    cluster.stop(3)
    cluster.reassign(2, 3)
    cluster.stop(0, 1)
    cluster.start(0)
    cluster.partition.isr = (2,)
    if is_refused:
        with pytest.raises(KafkaError) as refused:
            cancel(cluster.metadata, "t", 0, cluster.rules)
        assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    else:
        cancel(cluster.metadata, "t", 0, cluster.rules)

        assert (cluster.partition.replicas, cluster.partition.leader) == ((0, 1), 0)


def test_the_factor_changes_only_where_that_was_allowed() -> None:
    cluster = Cluster()
    with pytest.raises(KafkaError) as refused:
        cluster.reassign(0, 1, 2, may_change_factor=False)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    cluster.reassign(0, 1, 2)

    assert sorted(cluster.partition.isr) == [0, 1, 2]
