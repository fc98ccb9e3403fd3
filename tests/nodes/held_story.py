"""What a group coordinator tells and does while its records are on too few replicas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kwire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.nodes.coordinator_story import coordinator_of
from tests.nodes.replica_kit import configure
from tests.nodes.teller import Teller

TOPIC = "held"
#: All of these are kept in partition 0 of the five that __consumer_offsets has.
OFFSETS, CONSUMERS, SHARES, ALTERED = "held-offsets-3", "held-consumers-0", "held-shares-3", "held-altered-4"
LATE, LATE_OFFSETS, LATE_ALTERED = "held-joined-0", "held-new-3", "held-idle-0"


def _commit(group: str, offset: int) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(0, offset)])]
    return OffsetCommitRequest(group, topics=rows)


def _offset(group: str, *, stable: bool = False, every: bool = False) -> OffsetFetchRequest:
    topics = None if every else [OffsetFetchRequestTopics(TOPIC, partition_indexes=(0,))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)], require_stable=stable)


def _consumer(group: str, member: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group, member, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=(TOPIC,), topic_partitions=[]
    )


def _sharer(group: str, member: str) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(group, member, 0, subscribed_topic_names=(TOPIC,))


def _alteration(group: str, offset: int) -> AlterShareGroupOffsetsRequest:
    row = AlterShareGroupOffsetsRequestTopic(TOPIC, [AlterShareGroupOffsetsRequestPartition(0, offset)])
    return AlterShareGroupOffsetsRequest(group, [row])


def _deletion(group: str) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(group, [DeleteShareGroupOffsetsRequestTopic(TOPIC)])


def _codes(answer: Any) -> Any:
    """The codes of an answer of any of these kinds, with the offset if it has one."""
    if answer is None:
        return "no answer"
    if hasattr(answer, "results"):
        return {row.group_id: row.error_code for row in sorted(answer.results, key=lambda row: row.group_id)}
    if hasattr(answer, "groups"):
        group = answer.groups[0]
        rows = [row for topic in group.topics for row in topic.partitions]
        return [group.error_code, *(seen for row in rows for seen in (row.error_code, row.committed_offset))]
    if hasattr(answer, "topics"):
        return [row.error_code for topic in answer.topics for row in topic.partitions]
    if hasattr(answer, "responses"):
        rows = [row for topic in answer.responses for row in getattr(topic, "partitions", [topic])]
        return [answer.error_code, *(row.error_code for row in rows)]
    return [answer.error_code, answer.member_epoch]


def _ask_codes(teller: Teller, node: int, request: Any, version: int) -> Any:
    return _codes(teller.ask(node, request, version))


def all_that_is_told(teller: Teller, node: int) -> dict[str, Any]:
    """What can be read of the groups."""
    listed = teller.ask(node, ListGroupsRequest(), 5)
    consumers = teller.ask(node, ConsumerGroupDescribeRequest((CONSUMERS, LATE)), 1).groups
    shares = teller.ask(node, ShareGroupDescribeRequest((SHARES, ALTERED, LATE_ALTERED)), 1).groups
    classic = teller.ask(node, DescribeGroupsRequest((OFFSETS, LATE_OFFSETS)), 6).groups
    asked = [DescribeShareGroupOffsetsRequestGroup(group, None) for group in (ALTERED, LATE_ALTERED)]
    starts = teller.ask(node, DescribeShareGroupOffsetsRequest(asked), 1).groups
    return {
        "listed": sorted(
            [row.group_id, row.group_state, row.group_type] for row in listed.groups if row.group_id.startswith("held-")
        ),
        "consumers": [_described(row) for row in consumers],
        "shares": [_described(row) for row in shares],
        "classic": [[row.error_code, row.group_state] for row in classic],
        "offset": _codes(teller.ask(node, _offset(OFFSETS), 8)),
        "offset of a new group": _codes(teller.ask(node, _offset(LATE_OFFSETS), 8)),
        "all offsets": _codes(teller.ask(node, _offset(OFFSETS, every=True), 8)),
        "starts": [
            [row.start_offset for topic in group.topics for row in topic.partitions] + [group.error_code]
            for group in starts
        ],
    }


def _described(row: Any) -> list[Any]:
    members = sorted([one.member_id, one.member_epoch] for one in row.members)
    return [row.error_code, row.group_state, row.group_epoch, members]


def _isr(teller: Teller, node: int) -> list[int]:
    seen: list[int] = teller.partition(node, "__consumer_offsets")["isr"]
    return seen


def _set_the_stage(teller: Teller) -> int:
    """Groups of every kind with everything committed; returns who coordinates them."""
    teller.create(TOPIC, [(0, 1, 2)])
    node = coordinator_of(teller, 0, 0, OFFSETS)
    coordinator_of(teller, 0, 2, f"{SHARES}:AAAAAAAAAAAAAAAAAAAAAA:0")
    configure(teller, "__consumer_offsets", {"min.insync.replicas": "2"})
    configure(teller, "__share_group_state", {"min.insync.replicas": "1"})
    for request, version in (
        (_commit(OFFSETS, 3), 8),
        (_consumer(CONSUMERS, "member-1"), 1),
        (_sharer(SHARES, "member-1"), 1),
        (_alteration(ALTERED, 0), 0),
    ):
        teller.until(partial(_ask_codes, teller, node, request, version), lambda codes: codes[0] == 0)
    return node


def a_coordinator_tells_what_is_committed(teller: Teller, seen: dict[str, Any]) -> None:
    """Alone, with a minimum of two, a group coordinator writes, answers 15, and tells the groups as they were."""
    node = _set_the_stage(teller)
    others = [(node + 1) % 3, (node + 2) % 3]
    teller.let_pass(1)
    seen["before"] = all_that_is_told(teller, node)
    for other in others:
        teller.venue.stop(other)
    teller.until(lambda: teller.brokers(node), lambda brokers: brokers == [node])
    teller.until(lambda: _isr(teller, node), lambda isr: isr == [node])
    coordinator_of(teller, node, 2, f"{SHARES}:AAAAAAAAAAAAAAAAAAAAAA:0")
    seen.update(_at_once(teller, node))
    seen["alone"] = all_that_is_told(teller, node)
    other_teller = Teller(teller.venue)
    parked = other_teller.later(node, DeleteGroupsRequest((LATE_OFFSETS, LATE_ALTERED)), 2)
    configure(teller, "__consumer_offsets", {"min.insync.replicas": "1"}, node=node)
    teller.let_pass(0.5)
    # What is appended next is committed, with all that waited before it.
    seen["commit with a lower minimum"] = _codes(teller.ask(node, _commit(OFFSETS, 8), 8))
    seen["parked"] = _codes(parked())
    other_teller.hang_up()
    seen["committed"] = all_that_is_told(teller, node)
    for other in others:
        teller.venue.start(other)
    teller.until(lambda: _isr(teller, node), lambda isr: isr == [0, 1, 2])


def _at_once(teller: Teller, node: int) -> dict[str, Any]:
    """Each of these waits for the replicas that are gone; all of them do so at the same time."""
    asked: dict[str, Callable[[Teller], Any]] = {
        "commit": lambda one: one.later(node, _commit(OFFSETS, 7), 8),
        "commit of a new group": lambda one: one.later(node, _commit(LATE_OFFSETS, 1), 8),
        "stable offset": lambda one: one.later(node, _offset(OFFSETS, stable=True), 8),
        "second consumer": lambda one: one.later(node, _consumer(CONSUMERS, "member-2"), 1),
        "first consumer of a new group": lambda one: one.later(node, _consumer(LATE, "member-1"), 1),
        "second share consumer": lambda one: one.later(node, _sharer(SHARES, "member-2"), 1),
        "alter": lambda one: one.later(node, _alteration(ALTERED, 4), 0),
        "alter for a new group": lambda one: one.later(node, _alteration(LATE_ALTERED, 4), 0),
        "delete offsets": lambda one: one.later(node, _deletion(ALTERED), 0),
        "delete offsets of nobody": lambda one: one.later(node, _deletion("held-no-0"), 0),
        "delete groups": lambda one: one.later(node, DeleteGroupsRequest((OFFSETS, SHARES, "held-none-2")), 2),
    }
    tellers = [Teller(teller.venue) for _ in asked]
    waiting = [ask(one) for ask, one in zip(asked.values(), tellers, strict=True)]
    seen = {what: _codes(wait()) for what, wait in zip(asked, waiting, strict=True)}
    for one in tellers:
        one.hang_up()
    return seen


STORIES = (a_coordinator_tells_what_is_committed,)
