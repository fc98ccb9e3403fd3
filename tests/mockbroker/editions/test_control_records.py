"""State of share-partitions in their own log, over sockets (page 000): what nobody sees, recovery, and cleaning."""

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
from mockbroker.coordinators.share_state_log import Written as Recorded
from mockbroker.kafka_error import KafkaError
from mockbroker.persisters.books import Recovered, Recovery
from mockbroker.state.share_coordinator import ShareKey, Written
from mockbroker.state.state_batches import StateBatch
from tests.mockbroker.editions.control_kit import control_records, log_of, told
from tests.mockbroker.editions.draft_kit import ACCEPT, RELEASE, TOPIC, Member, shown

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


def _place(cluster: Cluster) -> tuple[bytes, int]:
    known = cluster.run(lambda server: server.core.state.metadata.topic(TOPIC))
    assert known is not None
    return known.topic_id, 0


def _recovered(cluster: Cluster) -> Recovered | None:
    place = _place(cluster)
    return cluster.run(lambda server: server.core.state.nodes[0].share_control_log.recovered(place))


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


def _latest(client: Client) -> int:
    rows = [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, -1, -1)])]
    return int(client.send(ListOffsetsRequest(-1, 0, rows), 7).topics[0].partitions[0].offset)


def _delete_state(member: Member) -> None:
    wanted = {"groupId": "G1", "topics": [{"topicName": TOPIC, "partitions": [0]}]}
    answer = member.ask("DeleteShareGroupOffsets", wanted)
    assert answer.responses[0].partitions[0].error_code == 0


def test_a_group_without_a_state_begins_with_a_checkpoint(member: Member) -> None:
    assert told(member.cluster) == ["0 checkpoint 1 0-0"]
    assert (member.view().checkpoint_offset, member.view().earliest_share_offset) == (0, 0)


def test_a_group_begins_when_it_subscribes_which_is_recorded(cluster: Cluster) -> None:
    with Member(cluster, EDITION) as member:
        member.produce(2)
        member.join()
        assert told(cluster) == ["2 checkpoint 1 2-2"]
        member.produce(1)

        assert member.first() == [(3, 3, 1)]


def test_control_records_take_offsets_and_no_consumer_gets_them(member: Member) -> None:
    assert member.produce(3) == 1
    assert member.fetch() == [(1, 3, 1)]
    member.settle(1, 3, ACCEPT)
    assert member.produce(2) == 5

    assert told(member.cluster) == ["0 checkpoint 1 0-0", "4 delta 1 <0 1-3 2/1"]
    assert _fetch(member.client, 0) == ([1, 2, 3, 5, 6], 7, 7)
    assert _fetch(member.client, 4) == ([5, 6], 7, 7)


def test_a_log_ends_for_consumers_before_the_control_records_at_its_end(member: Member) -> None:
    member.produce(3)
    member.fetch()
    member.settle(1, 3, ACCEPT)

    assert log_of(member.cluster).end_offset == 5
    assert _latest(member.client) == 4
    assert _fetch(member.client, 4) == ([], 4, 4)


def test_no_share_partition_acquires_them_and_its_start_passes_them(member: Member) -> None:
    member.produce(2)
    assert member.fetch() == [(1, 2, 1)]
    assert member.settle(1, 1, ACCEPT) == 0
    member.produce(2)
    assert member.fetch() == [(4, 5, 1)]
    assert member.settle(2, 2, ACCEPT) == 0
    member.produce(1)

    assert member.view().start_offset == 4
    assert shown(member.view()) == "4 6 4-5 acquired/1"
    assert member.settle(4, 5, RELEASE) == 0
    assert member.fetch(max_bytes=1 << 20) == [(4, 5, 2), (7, 7, 1)]
    assert [offset for offset, _, _ in control_records(member.cluster)] == [0, 3, 6, 8]


def test_one_fetch_acquires_what_lies_between_them_in_runs(member: Member) -> None:
    for _ in range(3):
        first = member.produce(2)
        assert member.fetch() == [(first, first + 1, 1)]
        member.settle(first, first + 1, ACCEPT)

    with Member(member.cluster, EDITION, group="G2") as later:
        assert later.alter(0) == 0
        assert later.fetch(wait_ms=0) == []
        assert later.fetch(max_bytes=1 << 20) == [(1, 2, 1), (4, 5, 1), (7, 8, 1)]
        assert later.settle(1, 2, ACCEPT) == 0
        assert later.view().start_offset == 4


def test_they_take_no_room_in_the_window() -> None:
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
            member.settle(first, first, ACCEPT)
        for _ in range(60):
            member.produce(1)

        assert member.view().end_offset - member.view().start_offset == 100
        assert member.fetch(max_bytes=1 << 20) == [(102, 150, 1)]
        assert sum(run.last_offset - run.first_offset + 1 for run in member.view().in_flight) == 100


def test_they_are_no_lag() -> None:
    with (
        Cluster(share_persister="control-records", topics={TOPIC: 1}) as cluster,
        Member(cluster, "4.3") as member,
    ):
        member.produce(3)
        assert member.alter(0) == 0
        assert told(cluster) == ["3 checkpoint 1 0-0"]
        group = {"groupId": "G1", "topics": [{"topicName": TOPIC, "partitions": [0]}]}
        answer = member.ask("DescribeShareGroupOffsets", {"groups": [group]}, version=1)

    row = answer.groups[0].topics[0].partitions[0]
    assert (row.start_offset, row.lag) == (0, 3)


def test_a_fetch_that_waits_for_records_goes_on_waiting(member: Member) -> None:
    member.produce(1)
    member.fetch()
    with Client(member.cluster.bootstrap_servers) as consumer:
        rows = [FetchTopic(TOPIC, partitions=[FetchPartition(0, fetch_offset=2, partition_max_bytes=1 << 20)])]
        waiting = consumer.submit(FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20, topics=rows), 12)
        member.settle(1, 1, ACCEPT)
        assert log_of(member.cluster).end_offset == 3
        member.cluster.clock.advance(1000)
        assert not waiting.done

        member.produce(1)
        row = waiting.result(10).responses[0].partitions[0]
        assert [batch.base_offset for batch in read_batches(row.records)] == [3]


def test_a_group_that_is_left_alone_for_ten_minutes_writes_nothing(member: Member) -> None:
    member.produce(3)
    member.fetch()
    member.settle(1, 3, ACCEPT)
    before = log_of(member.cluster).end_offset

    member.cluster.clock.advance(TEN_MINUTES_MS)

    assert log_of(member.cluster).end_offset == before


def test_a_leader_recovers_by_its_share_snapshot_file_with_one_seek(cluster: Cluster) -> None:
    with Cluster(share_edition=EDITION, topics={TOPIC: 1}, properties={DELTAS: "2"}) as small:
        with Member(small, EDITION) as member:
            member.join()
            assert member.fetch(wait_ms=0) == []
            for _ in range(4):
                first = member.produce(1)
                assert member.fetch() == [(first, first, 1)]
                member.settle(first, first, ACCEPT)
            newest = member.view().checkpoint_offset
            assert told(small)[-2:] == ["6 checkpoint 2 6-6", "8 delta 2 <6 7-7 2/1"]
        _restart(small)
        with Member(small, EDITION) as later:
            later.fetch(wait_ms=0)
            assert later.view().start_offset == 8
        assert _recovered(small) == Recovered(Recovery.SNAPSHOT_FILE, newest or -1)


@pytest.mark.parametrize("damage", [None, b"", b"0\n1\n", b'0\n1\n3 "G1"\n', b'0\n1\n999 "G1"\n', b"\xff\xfe"])
def test_a_snapshot_file_that_is_missing_or_damaged_is_made_anew_by_a_scan(
    member: Member, damage: bytes | None
) -> None:
    cluster, place = member.cluster, _place(member.cluster)
    member.produce(2)
    member.fetch()
    member.settle(1, 1, ACCEPT)
    files = cluster.run(lambda server: server.core.state.kept.share_snapshots(0))
    good = files.read(place)
    assert good == b'0\n1\n0 "G1"\n'
    cluster.kill_node(0)
    if damage is None:
        files.lose(place)
    else:
        files.write(place, damage)
    cluster.start_node(0)

    with Member(cluster, EDITION) as later:
        assert later.fetch(wait_ms=0) == []
        assert shown(later.view()) == "2 2 "
        assert later.fetch() == [(2, 2, 1)]
    assert _recovered(cluster) == Recovered(Recovery.SCAN, 0)
    assert files.read(place) == good


def test_checkpoint_epochs_are_16_bits_and_begin_again(cluster: Cluster) -> None:
    place = _place(cluster)

    def age(server: object) -> None:
        room = server.core.state.nodes[0].share_control_log  # type: ignore[attr-defined]
        room.chain(ShareKey("G1", *place)).epoch = 0xFFFF

    with Member(cluster, EDITION) as member:
        assert member.alter(0) == 0
        cluster.run(age)
        assert member.alter(0) == 0
        member.produce(1)
        member.first()
        member.settle(2, 2, ACCEPT)

    assert told(cluster) == ["0 checkpoint 1 0-0", "1 checkpoint 0 0-0", "3 delta 0 <1 2-2 2/1"]


def test_a_state_that_is_deleted_is_not_found_by_a_scan_either(cluster: Cluster) -> None:
    with Member(cluster, EDITION) as member:
        member.produce(3)
        assert member.alter(1) == 0
        _delete_state(member)
        assert told(cluster)[-1] == "4 checkpoint 2 -1--1"
    cluster.run(lambda server: server.core.state.kept.share_snapshots(0).lose(_place_of(server)))
    _restart(cluster)

    with Member(cluster, EDITION) as later:
        later.join()
        assert later.fetch(wait_ms=0) == []
        assert later.view().start_offset == 5


def _leave_with_locks_that_end_now(member: Member) -> None:
    """What the end of the locks has to have written is on its way for another millisecond."""
    member.produce(3)
    assert member.fetch() == [(1, 3, 1)]
    member.leave()
    member.cluster.clock.advance(LOCK_MS)


def test_a_write_that_was_under_way_does_not_bring_a_deleted_state_back(member: Member) -> None:
    _leave_with_locks_that_end_now(member)
    _delete_state(member)

    member.cluster.clock.advance(1)
    assert told(member.cluster)[1:] == ["4 checkpoint 2 -1--1"]
    with Member(member.cluster, EDITION, group="G1") as later:
        later.fetch(wait_ms=0)
        assert (later.view().start_offset, told(member.cluster)[2:]) == (5, ["5 checkpoint 3 5-5"])


def test_a_write_that_was_under_way_is_none_of_the_state_that_begins_anew(cluster: Cluster) -> None:
    with Member(cluster, EDITION) as member:
        member.produce(3)
        assert member.alter(0) == 0
        assert member.first() == [(0, 2, 1)]
        cluster.clock.advance(LOCK_MS)
        assert member.alter(2) == 0  # The group stays empty, and so its epoch stays.

        cluster.clock.advance(1)
        assert told(cluster) == ["3 checkpoint 1 0-0", "4 checkpoint 2 2-2"]


def test_a_leader_that_had_chosen_a_start_does_not_begin_there_after_a_deletion(cluster: Cluster) -> None:
    def ask(server: object) -> None:
        node, now_ms = server.core.state.nodes[0], server.core.now_ms  # type: ignore[attr-defined]
        key = ShareKey("G1", *_place_of(server))
        node.persister.delete(key, done=lambda answer, at_ms: None, now_ms=now_ms)
        node.persister.decided(key, 0, state_epoch=0, leader_epoch=0, now_ms=now_ms)

    cluster.run(ask)
    cluster.clock.advance(1)

    assert told(cluster) == []


def test_what_is_written_and_deleted_with_one_message_is_deleted(member: Member) -> None:
    member.produce(1)
    written = Written(0, 0, 0, -1, [StateBatch(1, 1, 2, 1)])

    def ask(server: object) -> None:
        node, now_ms = server.core.state.nodes[0], server.core.now_ms  # type: ignore[attr-defined]
        key = ShareKey("G1", *_place_of(server))
        node.persister.write(key, written, done=lambda answer, at_ms: None, now_ms=now_ms)
        node.persister.delete(key, done=lambda answer, at_ms: None, now_ms=now_ms)

    member.cluster.run(ask)
    member.cluster.clock.advance(1)

    assert told(member.cluster)[1:] == ["2 checkpoint 2 -1--1"]


def test_records_that_are_deleted_take_no_state_with_them(member: Member) -> None:
    member.produce(3)
    member.fetch()
    member.settle(2, 2, ACCEPT)
    member.produce(3)
    rows = [DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 6)])]
    answer = member.client.send(DeleteRecordsRequest(rows, 1000), 2)
    assert answer.topics[0].partitions[0].low_watermark == 6
    assert told(member.cluster) == ["8 checkpoint 2 6-6"]
    _restart(member.cluster)

    with Member(member.cluster, EDITION) as later:
        assert later.first() == [(6, 7, 1)]


def test_a_new_leader_on_another_node_goes_on_from_the_records() -> None:
    with Cluster(share_edition=EDITION, nodes=2, topics={TOPIC: 1}, properties={REPLICAS: 2}) as cluster:
        nodes = [f"127.0.0.1:{address.rsplit(':')[1]}" for address in cluster.bootstrap_servers.split(",")]
        home = cluster.run(_leader)
        with Member(cluster, EDITION, bootstrap=nodes[home]) as member:
            assert member.alter_anywhere(0, nodes) == 0
            member.produce(3)
            assert member.first() == [(1, 3, 1)]
            assert member.settle(2, 2, ACCEPT) == 0
            cluster.move_leader(TOPIC, 0, to=1 - home)

        with Member(cluster, EDITION, bootstrap=nodes[1 - home]) as later:
            assert later.fetch(wait_ms=0) == []
            assert shown(later.view()) == "1 3 1 available/0, 2 acknowledged/1"
            assert later.first() == [(1, 1, 1), (3, 3, 1)]
            assert told(cluster) == ["0 checkpoint 1 0-0", "4 delta 1 <0 1-1 0/0 2-2 2/1"]


def _leader(server: object) -> int:
    state = server.core.state  # type: ignore[attr-defined]
    return int(state.metadata.topic(TOPIC).partitions[0].leader)


def _place_of(server: object) -> tuple[bytes, int]:
    known = server.core.state.metadata.topic(TOPIC)  # type: ignore[attr-defined]
    return known.topic_id, 0


def test_what_was_recorded_in_an_earlier_leader_epoch_may_be_lost_and_is_not_answered_for() -> None:
    with Cluster(share_edition=EDITION, nodes=2, topics={TOPIC: 1}, properties={REPLICAS: 2}) as cluster:
        place, home = _place(cluster), cluster.run(_leader)

        def recorded(server: object) -> Recorded:
            room = server.core.state.nodes[home].share_control_log  # type: ignore[attr-defined]
            room.decide(ShareKey("G1", *place), 0, state_epoch=0, leader_epoch=-1, now_ms=0)
            return room.recorded(ShareKey("G1", *place))  # type: ignore[no-any-return]

        before = cluster.run(recorded)
        cluster.move_leader(TOPIC, 0, to=1 - home)
        cluster.move_leader(TOPIC, 0, to=home)

        def error(server: object) -> KafkaError | None:
            room = server.core.state.nodes[home].share_control_log  # type: ignore[attr-defined]
            return room.error_of(before, since_ms=0, now_ms=0)  # type: ignore[no-any-return]

        found = cluster.run(error)
    assert found is not None
    assert found.code is ErrorCode.NOT_COORDINATOR
