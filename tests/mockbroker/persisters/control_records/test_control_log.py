"""State of share-partitions in their own log, over sockets (revision r2): hidden batches, recovery, and cleaning."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire import Client
from kwire.error_codes import ErrorCode
from kwire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.records import read_batches
from mockbroker import Cluster
from mockbroker.coordinators.share.share_state_log import LogPosition as Recorded
from mockbroker.kafka_error import KafkaError
from mockbroker.persisters.control_records.control_record_index import Recovery, RecoveryInfo
from mockbroker.state.share.state_batches import StateBatch
from mockbroker.state.share_coordinator.share_coordinator import ShareKey, StateWrite
from tests.support.brokers.control_records import control_records, describe_control_records, find_log
from tests.support.brokers.draft_members import ACCEPT, RELEASE, TOPIC, Member, describe_view

EDITION = "kip932-r2"
REPLICAS = "default.replication.factor"
DELTAS = "share.coordinator.snapshot.update.records.per.snapshot"
TEN_MINUTES_MS, LOCK_MS = 600_000, 30_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(share_edition=EDITION, topics={TOPIC: 1}) as running:
        running.clock.freeze()
        yield running


@pytest.fixture
def member(cluster: Cluster) -> Iterator[Member]:
    with Member(cluster, EDITION) as running:
        running.join()
        assert running.fetch(wait_ms=0) == []
        yield running


def _topic_partition(cluster: Cluster) -> tuple[bytes, int]:
    known = cluster.run(lambda server: server.core.state.metadata.topic(TOPIC))
    assert known is not None
    return known.topic_id, 0


def _recovery(cluster: Cluster) -> RecoveryInfo | None:
    place = _topic_partition(cluster)
    return cluster.run(lambda server: server.core.state.nodes[0].share_control_log.recovery(place))


def _restart(cluster: Cluster) -> None:
    cluster.kill_node(0)
    cluster.start_node(0)


def _fetch(client: Client, offset: int, *, max_wait_ms: int = 0) -> tuple[list[int], int, int]:
    """Offsets of the records from an offset on, high watermark and last stable offset."""
    rows = [FetchTopic(TOPIC, partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)])]
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=rows)
    row = client.send(request, 12).responses[0].partitions[0]
    assert row.error_code == 0
    offsets = [record.offset for batch in read_batches(row.records or b"") for record in batch.records()]
    return offsets, row.high_watermark, row.last_stable_offset


def _latest_offset(client: Client) -> int:
    rows = [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, -1, -1)])]
    return int(client.send(ListOffsetsRequest(-1, 0, rows), 7).topics[0].partitions[0].offset)


def _delete_state(member: Member) -> None:
    wanted = {"groupId": "G1", "topics": [{"topicName": TOPIC, "partitions": [0]}]}
    answer = member.call("DeleteShareGroupOffsets", wanted)
    assert answer.responses[0].partitions[0].error_code == 0


def test_the_state_of_a_group_starts_with_a_checkpoint(member: Member) -> None:
    assert describe_control_records(member.cluster) == ["0 checkpoint 1 0-0"]
    assert (member.view().checkpoint_offset, member.view().earliest_share_offset) == (0, 0)


def test_the_start_of_a_group_is_recorded_when_it_subscribes(cluster: Cluster) -> None:
    with Member(cluster, EDITION) as member:
        member.produce(2)
        member.join()
        assert describe_control_records(cluster) == ["2 checkpoint 1 2-2"]
        member.produce(1)

        assert member.first_fetch() == [(3, 3, 1)]


def test_control_records_take_offsets_and_no_consumer_gets_them(member: Member) -> None:
    assert member.produce(3) == 1
    assert member.fetch() == [(1, 3, 1)]
    member.acknowledge(1, 3, ACCEPT)
    assert member.produce(2) == 5

    assert describe_control_records(member.cluster) == ["0 checkpoint 1 0-0", "4 delta 1 <0 1-3 2/1"]
    assert _fetch(member.client, 0) == ([1, 2, 3, 5, 6], 7, 7)
    assert _fetch(member.client, 4) == ([5, 6], 7, 7)


def test_a_log_ends_for_consumers_before_the_control_records_at_its_end(member: Member) -> None:
    member.produce(3)
    member.fetch()
    member.acknowledge(1, 3, ACCEPT)

    assert find_log(member.cluster).end_offset == 5
    assert _latest_offset(member.client) == 4
    assert _fetch(member.client, 4) == ([], 4, 4)


def test_no_share_partition_acquires_them_and_its_start_passes_them(member: Member) -> None:
    member.produce(2)
    assert member.fetch() == [(1, 2, 1)]
    assert member.acknowledge(1, 1, ACCEPT) == 0
    member.produce(2)
    assert member.fetch() == [(4, 5, 1)]
    assert member.acknowledge(2, 2, ACCEPT) == 0
    member.produce(1)

    assert member.view().start_offset == 4
    assert describe_view(member.view()) == "4 6 4-5 acquired/1"
    assert member.acknowledge(4, 5, RELEASE) == 0
    assert member.fetch(max_bytes=1 << 20) == [(4, 5, 2), (7, 7, 1)]
    assert [offset for offset, _, _ in control_records(member.cluster)] == [0, 3, 6, 8]


def test_one_fetch_acquires_what_lies_between_them_in_runs(member: Member) -> None:
    for _ in range(3):
        first = member.produce(2)
        assert member.fetch() == [(first, first + 1, 1)]
        member.acknowledge(first, first + 1, ACCEPT)

    with Member(member.cluster, EDITION, group="G2") as later:
        assert later.alter(0) == 0
        assert later.fetch(wait_ms=0) == []
        assert later.fetch(max_bytes=1 << 20) == [(1, 2, 1), (4, 5, 1), (7, 8, 1)]
        assert later.acknowledge(1, 2, ACCEPT) == 0
        assert later.view().start_offset == 4


def test_control_records_do_not_count_in_the_window() -> None:
    properties = {"group.share.record.lock.partition.limit": "100"}
    with (
        Cluster(share_edition=EDITION, topics={TOPIC: 1}, properties=properties) as small,
        Member(small, EDITION) as member,
    ):
        small.clock.freeze()
        member.join()
        assert member.fetch(wait_ms=0) == []
        member.produce(1)
        assert member.fetch() == [(1, 1, 1)]
        for _ in range(50):
            first = member.produce(1)
            assert member.fetch() == [(first, first, 1)]
            member.acknowledge(first, first, ACCEPT)
        for _ in range(60):
            member.produce(1)

        assert member.view().end_offset - member.view().start_offset == 100
        assert member.fetch(max_bytes=1 << 20) == [(102, 150, 1)]
        assert sum(run.last_offset - run.first_offset + 1 for run in member.view().in_flight) == 100


def test_they_are_no_lag() -> None:
    with Cluster(share_persister="control-records", topics={TOPIC: 1}) as cluster, Member(cluster, "4.3") as member:
        member.produce(3)
        assert member.alter(0) == 0
        assert describe_control_records(cluster) == ["3 checkpoint 1 0-0"]
        group = {"groupId": "G1", "topics": [{"topicName": TOPIC, "partitions": [0]}]}
        answer = member.call("DescribeShareGroupOffsets", {"groups": [group]}, version=1)

    row = answer.groups[0].topics[0].partitions[0]
    assert (row.start_offset, row.lag) == (0, 3)


def test_a_fetch_that_waits_for_records_continues_to_wait(member: Member) -> None:
    member.produce(1)
    member.fetch()
    with Client(member.cluster.bootstrap_servers) as consumer:
        rows = [FetchTopic(TOPIC, partitions=[FetchPartition(0, fetch_offset=2, partition_max_bytes=1 << 20)])]
        waiting = consumer.submit(FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20, topics=rows), 12)
        member.acknowledge(1, 1, ACCEPT)
        assert find_log(member.cluster).end_offset == 3
        member.cluster.clock.advance(1000)
        assert not waiting.done

        member.produce(1)
        row = waiting.result(10).responses[0].partitions[0]
        assert [batch.base_offset for batch in read_batches(row.records)] == [3]


def test_a_group_that_is_left_alone_for_ten_minutes_writes_nothing(member: Member) -> None:
    member.produce(3)
    member.fetch()
    member.acknowledge(1, 3, ACCEPT)
    before = find_log(member.cluster).end_offset

    member.cluster.clock.advance(TEN_MINUTES_MS)

    assert find_log(member.cluster).end_offset == before


def test_a_leader_recovers_by_its_share_snapshot_file_with_one_seek(cluster: Cluster) -> None:
    with Cluster(share_edition=EDITION, topics={TOPIC: 1}, properties={DELTAS: "2"}) as small:
        with Member(small, EDITION) as member:
            member.join()
            assert member.fetch(wait_ms=0) == []
            for _ in range(4):
                first = member.produce(1)
                assert member.fetch() == [(first, first, 1)]
                member.acknowledge(first, first, ACCEPT)
            newest = member.view().checkpoint_offset
            assert describe_control_records(small)[-2:] == ["6 checkpoint 2 6-6", "8 delta 2 <6 7-7 2/1"]
        _restart(small)
        with Member(small, EDITION) as later:
            later.fetch(wait_ms=0)
            assert later.view().start_offset == 8
        assert _recovery(small) == RecoveryInfo(Recovery.SNAPSHOT_FILE, newest or -1)


@pytest.mark.parametrize("damage", [None, b"", b"0\n1\n", b'0\n1\n3 "G1"\n', b'0\n1\n999 "G1"\n', b"\xff\xfe"])
def test_a_missing_or_damaged_snapshot_file_is_rebuilt_by_a_scan(member: Member, damage: bytes | None) -> None:
    cluster, place = member.cluster, _topic_partition(member.cluster)
    member.produce(2)
    member.fetch()
    member.acknowledge(1, 1, ACCEPT)
    files = cluster.run(lambda server: server.core.state.broker_storage.share_snapshots(0))
    good = files.read_file(place)
    assert good == b'0\n1\n0 "G1"\n'
    cluster.kill_node(0)
    if damage is None:
        files.delete_file(place)
    else:
        files.write_file(place, damage)
    cluster.start_node(0)

    with Member(cluster, EDITION) as later:
        assert later.fetch(wait_ms=0) == []
        assert describe_view(later.view()) == "2 2 "
        assert later.fetch() == [(2, 2, 1)]
    assert _recovery(cluster) == RecoveryInfo(Recovery.SCAN, 0)
    assert files.read_file(place) == good


def test_checkpoint_epochs_are_16_bits_and_wrap(cluster: Cluster) -> None:
    place = _topic_partition(cluster)

    def age(server: object) -> None:
        control_log = server.core.state.nodes[0].share_control_log  # type: ignore[attr-defined]
        control_log.recorded_state(ShareKey("G1", *place)).epoch = 0xFFFF

    with Member(cluster, EDITION) as member:
        assert member.alter(0) == 0
        cluster.run(age)
        assert member.alter(0) == 0
        member.produce(1)
        member.first_fetch()
        member.acknowledge(2, 2, ACCEPT)

    assert describe_control_records(cluster) == ["0 checkpoint 1 0-0", "1 checkpoint 0 0-0", "3 delta 0 <1 2-2 2/1"]


def test_a_state_that_is_deleted_is_not_found_by_a_scan_either(cluster: Cluster) -> None:
    with Member(cluster, EDITION) as member:
        member.produce(3)
        assert member.alter(1) == 0
        _delete_state(member)
        assert describe_control_records(cluster)[-1] == "4 checkpoint 2 -1--1"
    cluster.run(
        lambda server: server.core.state.broker_storage.share_snapshots(0).delete_file(_topic_partition_of(server))
    )
    _restart(cluster)

    with Member(cluster, EDITION) as later:
        later.join()
        assert later.fetch(wait_ms=0) == []
        assert later.view().start_offset == 5


def _leave_with_locks_that_end_now(member: Member) -> None:
    """The writes of expired locks are sent a millisecond later."""
    member.produce(3)
    assert member.fetch() == [(1, 3, 1)]
    member.leave()
    member.cluster.clock.advance(LOCK_MS)


def test_a_write_that_was_under_way_does_not_bring_a_deleted_state_back(member: Member) -> None:
    _leave_with_locks_that_end_now(member)
    _delete_state(member)

    member.cluster.clock.advance(1)
    assert describe_control_records(member.cluster)[1:] == ["4 checkpoint 2 -1--1"]
    with Member(member.cluster, EDITION, group="G1") as later:
        later.fetch(wait_ms=0)
        assert (later.view().start_offset, describe_control_records(member.cluster)[2:]) == (5, ["5 checkpoint 3 5-5"])


def test_a_write_under_way_does_not_change_a_new_state(cluster: Cluster) -> None:
    with Member(cluster, EDITION) as member:
        member.produce(3)
        assert member.alter(0) == 0
        assert member.first_fetch() == [(0, 2, 1)]
        cluster.clock.advance(LOCK_MS)
        assert member.alter(2) == 0  # The group stays empty, so its epoch does not change.

        cluster.clock.advance(1)
        assert describe_control_records(cluster) == ["3 checkpoint 1 0-0", "4 checkpoint 2 2-2"]


def test_a_start_chosen_before_a_deletion_is_not_used_after_it(cluster: Cluster) -> None:
    def ask(server: object) -> None:
        node, now_ms = server.core.state.nodes[0], server.core.now_ms  # type: ignore[attr-defined]
        key = ShareKey("G1", *_topic_partition_of(server))
        node.persister.delete_states(key, done=lambda answer, at_ms: None, now_ms=now_ms)
        node.persister.record_initial_start(key, 0, state_epoch=0, leader_epoch=0, now_ms=now_ms)

    cluster.run(ask)
    cluster.clock.advance(1)

    assert describe_control_records(cluster) == []


def test_what_is_written_and_deleted_with_one_message_is_deleted(member: Member) -> None:
    member.produce(1)
    written = StateWrite(0, 0, 0, -1, [StateBatch(1, 1, 2, 1)])

    def ask(server: object) -> None:
        node, now_ms = server.core.state.nodes[0], server.core.now_ms  # type: ignore[attr-defined]
        key = ShareKey("G1", *_topic_partition_of(server))
        node.persister.write_states(key, written, done=lambda answer, at_ms: None, now_ms=now_ms)
        node.persister.delete_states(key, done=lambda answer, at_ms: None, now_ms=now_ms)

    member.cluster.run(ask)
    member.cluster.clock.advance(1)

    assert describe_control_records(member.cluster)[1:] == ["2 checkpoint 2 -1--1"]


def test_records_that_are_deleted_take_no_state_with_them(member: Member) -> None:
    member.produce(3)
    member.fetch()
    member.acknowledge(2, 2, ACCEPT)
    member.produce(3)
    rows = [DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 6)])]
    answer = member.client.send(DeleteRecordsRequest(rows, 1000), 2)
    assert answer.topics[0].partitions[0].low_watermark == 6
    assert describe_control_records(member.cluster) == ["8 checkpoint 2 6-6"]
    _restart(member.cluster)

    with Member(member.cluster, EDITION) as later:
        assert later.first_fetch() == [(6, 7, 1)]


def test_a_new_leader_on_another_node_continues_from_the_records() -> None:
    with Cluster(share_edition=EDITION, nodes=2, topics={TOPIC: 1}, properties={REPLICAS: 2}) as cluster:
        nodes = [f"127.0.0.1:{address.rsplit(':')[1]}" for address in cluster.bootstrap_servers.split(",")]
        home = cluster.run(_leader_id)
        with Member(cluster, EDITION, bootstrap=nodes[home]) as member:
            assert member.alter_anywhere(0, nodes) == 0
            member.produce(3)
            assert member.first_fetch() == [(1, 3, 1)]
            assert member.acknowledge(2, 2, ACCEPT) == 0
            cluster.move_leader(TOPIC, 0, to=1 - home)

        with Member(cluster, EDITION, bootstrap=nodes[1 - home]) as later:
            assert later.fetch(wait_ms=0) == []
            assert describe_view(later.view()) == "1 3 1 available/0, 2 acknowledged/1"
            assert later.first_fetch() == [(1, 1, 1), (3, 3, 1)]
            assert describe_control_records(cluster) == ["0 checkpoint 1 0-0", "4 delta 1 <0 1-1 0/0 2-2 2/1"]


def _leader_id(server: object) -> int:
    state = server.core.state  # type: ignore[attr-defined]
    return int(state.metadata.topic(TOPIC).partitions[0].leader)


def _topic_partition_of(server: object) -> tuple[bytes, int]:
    known = server.core.state.metadata.topic(TOPIC)  # type: ignore[attr-defined]
    return known.topic_id, 0


def test_what_was_recorded_in_an_earlier_leader_epoch_may_be_lost_and_is_not_answered_for() -> None:
    with Cluster(share_edition=EDITION, nodes=2, topics={TOPIC: 1}, properties={REPLICAS: 2}) as cluster:
        place, home = _topic_partition(cluster), cluster.run(_leader_id)

        def recorded(server: object) -> Recorded:
            control_log = server.core.state.nodes[home].share_control_log  # type: ignore[attr-defined]
            control_log.record_initial_start(ShareKey("G1", *place), 0, state_epoch=0, leader_epoch=-1, now_ms=0)
            return control_log.log_position(ShareKey("G1", *place))  # type: ignore[no-any-return]

        before = cluster.run(recorded)
        cluster.move_leader(TOPIC, 0, to=1 - home)
        cluster.move_leader(TOPIC, 0, to=home)

        def error(server: object) -> KafkaError | None:
            control_log = server.core.state.nodes[home].share_control_log  # type: ignore[attr-defined]
            return control_log.replication_error(before, since_ms=0, now_ms=0)  # type: ignore[no-any-return]

        found = cluster.run(error)
    assert found is not None
    assert found.code is ErrorCode.NOT_COORDINATOR
