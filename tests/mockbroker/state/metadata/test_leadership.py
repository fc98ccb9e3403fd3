"""Leader elections after replicas stopped, returned, crashed, or were reassigned."""

from __future__ import annotations

import random

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata import leadership
from mockbroker.state.metadata.cluster_image import ClusterImage, Partition
from mockbroker.state.metadata.leadership import NO_LEADER, ElectionRules, ElectionType
from mockbroker.state.metadata.reassignment import plan_cancellation, plan_reassignment
from tests.support.raises_code import raises_code


class Cluster:
    """Four nodes, and one partition on the first ones."""

    def __init__(
        self, replicas: tuple[int, ...] = (0, 1), *, least: int = 1, unclean: bool = False, has_elr: bool = True
    ) -> None:
        self.metadata = ClusterImage(range(4), BrokerConfig(), random.Random(1))
        self.topic = self.metadata.create_topic("t", assignments={0: replicas})
        self.rules = ElectionRules(
            has_elr=has_elr, least_in_sync=lambda topic: least, may_be_unclean=lambda topic: unclean
        )

    @property
    def partition(self) -> Partition:
        return self.topic.partitions[0]

    def stop(self, *nodes: int) -> None:
        for node in nodes:
            leadership.fence_broker(self.metadata, node, self.rules)

    def start(self, node: int, *, has_crashed: bool = False) -> None:
        if has_crashed:
            leadership.fence_broker(self.metadata, node, self.rules, has_crashed=True)
        leadership.unfence_broker(self.metadata, node, self.rules)
        self.expand_isr(*set(range(4)) - self.metadata.fenced)

    def expand_isr(self, *running: int) -> None:
        leadership.expand_isr(self.metadata, [(self.topic, self.partition)], self.rules, running=running)

    def elect(self, election: ElectionType, index: int = 0) -> ErrorCode:
        try:
            planned = leadership.plan_election(self.metadata, "t", index, election, self.rules)
        except KafkaError as error:
            return error.code
        leadership.apply_change(self.metadata, planned)
        return ErrorCode.NONE

    def reassign(self, *replicas: int, may_change_factor: bool = True) -> None:
        planned = plan_reassignment(self.metadata, "t", 0, replicas, self.rules, may_change_factor=may_change_factor)
        leadership.apply_change(self.metadata, planned)
        self.expand_isr(*set(range(4)) - self.metadata.fenced)

    def cancel(self) -> None:
        leadership.apply_change(self.metadata, plan_cancellation(self.metadata, "t", 0, self.rules))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_replica_that_lacks_records_leads_where_the_topic_allows_it() -> None:
    for unclean, leader in ((True, 1), (False, NO_LEADER)):
        cluster = Cluster(unclean=unclean)
        cluster.stop(1, 0)
        cluster.start(1)

        assert cluster.partition.leader == leader


def test_an_unclean_leader_is_elected_at_once_when_the_leader_stops() -> None:
    cluster = Cluster((0, 1), unclean=True)
    cluster.partition.isr = (0,)
    cluster.stop(0)

    assert (cluster.partition.leader, cluster.partition.isr, cluster.partition.elr) == (1, (1,), ())


def test_below_the_minimum_former_in_sync_replicas_are_eligible() -> None:
    cluster = Cluster((0, 1, 2), least=3)
    cluster.stop(2, 1)

    assert (cluster.partition.isr, sorted(cluster.partition.elr)) == ((0,), [1, 2])


def test_an_eligible_replica_leads_without_in_sync_replicas() -> None:
    cluster = Cluster(least=2)
    cluster.stop(1, 0)
    assert (cluster.partition.isr, cluster.partition.last_known_elr) == ((), (0,))
    leadership.unfence_broker(cluster.metadata, 1, cluster.rules)

    assert (cluster.partition.leader, cluster.partition.isr) == (1, (1,))
    assert (cluster.partition.elr, cluster.partition.last_known_elr) == ((0,), ())


def test_a_crashed_replica_is_not_eligible_and_the_last_known_leader_is_elected() -> None:
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


def test_a_replica_is_not_in_sync_with_a_stopped_leader() -> None:
    cluster = Cluster((0, 1, 2))
    cluster.stop(1)
    leadership.unfence_broker(cluster.metadata, 1, cluster.rules)
    cluster.expand_isr(1, 2, 3)

    assert cluster.partition.isr == (0, 2)


def test_rejected_elections_have_a_reason(cluster: Cluster) -> None:
    assert cluster.elect(ElectionType.PREFERRED) is ErrorCode.ELECTION_NOT_NEEDED
    assert cluster.elect(ElectionType.UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED
    assert cluster.elect(ElectionType.PREFERRED, 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.stop(0)
    assert cluster.elect(ElectionType.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    cluster.stop(1)

    assert cluster.elect(ElectionType.UNCLEAN) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_the_preferred_replica_is_elected_on_request(cluster: Cluster) -> None:
    cluster.stop(0)
    cluster.start(0)
    assert cluster.partition.leader == 1

    assert cluster.elect(ElectionType.PREFERRED) is ErrorCode.NONE
    assert (cluster.partition.leader, cluster.partition.leader_epoch) == (0, 2)


def test_a_reassignment_ends_when_the_new_replicas_are_in_sync(cluster: Cluster) -> None:
    cluster.reassign(2, 3)

    partition = cluster.partition
    assert (partition.replicas, sorted(partition.isr), partition.is_being_reassigned) == ((2, 3), [2, 3], False)
    assert (partition.leader, partition.leader_epoch) == (2, 1)


def test_a_reassignment_waits_for_a_node_that_is_down(cluster: Cluster) -> None:
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


def test_a_cancelled_reassignment_leaves_the_old_replicas(cluster: Cluster) -> None:
    cluster.stop(3)
    cluster.reassign(3, 1)
    cluster.cancel()

    assert (cluster.partition.replicas, cluster.partition.isr) == ((1, 0), (0, 1))
    with raises_code(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS):
        cluster.cancel()


@pytest.mark.parametrize(("unclean", "is_refused"), [(False, True), (True, False)])
def test_cancelling_a_reassignment_may_lose_records_where_the_topic_allows_it(unclean: bool, is_refused: bool) -> None:
    cluster = Cluster(unclean=unclean)
    cluster.stop(3)
    cluster.reassign(2, 3)
    cluster.stop(0, 1)
    cluster.start(0)
    cluster.partition.isr = (2,)
    if is_refused:
        with raises_code(ErrorCode.INVALID_REPLICA_ASSIGNMENT):
            cluster.cancel()
    else:
        cluster.cancel()

        assert (cluster.partition.replicas, cluster.partition.leader) == ((0, 1), 0)


def test_the_factor_changes_only_where_that_was_allowed(cluster: Cluster) -> None:
    with raises_code(ErrorCode.INVALID_REPLICATION_FACTOR):
        cluster.reassign(0, 1, 2, may_change_factor=False)
    cluster.reassign(0, 1, 2)

    assert sorted(cluster.partition.isr) == [0, 1, 2]


def test_a_leader_moves_to_the_first_other_in_sync_replica_where_none_is_named() -> None:
    cluster = Cluster((0, 1, 2))
    cluster.stop(1)
    leadership.move_leader(cluster.metadata, "t", 0, to=None)
    assert cluster.partition.leader == 2

    leadership.move_leader(cluster.metadata, "t", 0, to=None)
    assert cluster.partition.leader == 0


def test_a_leader_does_not_move_where_no_other_replica_is_in_sync() -> None:
    cluster = Cluster((0, 1))
    cluster.stop(1)
    refusal = r"^ELIGIBLE_LEADERS_NOT_AVAILABLE: t-0 has no other in-sync replica; .* \[0\]$"
    with pytest.raises(KafkaError, match=refusal):
        leadership.move_leader(cluster.metadata, "t", 0, to=None)
